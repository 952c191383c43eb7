"""A table made again by another transform beside the running stream, and swapped at an exact position."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from moved_rig import Registry, accepted, deployed

from lakeward.cli.streams.audit import audit
from lakeward.connectors.commit_protocol import position
from lakeward.connectors.kafka.position import render
from lakeward.engine.assignment import Assignment
from lakeward.operations.backfill.backfill import backfill
from lakeward.operations.rebuild import names, plan
from lakeward.operations.rebuild.fill import Fill
from lakeward.operations.rebuild.plan import Options, RebuildPlan
from lakeward.operations.rebuild.rebuild import Rebuild
from lakeward.operations.request import Outcome, Request
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Blocked, Refused, Unhealthy
from lakeward.registry import changes, generations, operations, streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import abandoned_operations
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes


class Killed(BaseException):
    """Nobody cleans up after it: as after SIGKILL."""


def once(hook: Callable[[], None]) -> Callable[[], None]:
    """The first time this thread passes; the stream beside it has threads of its own."""
    passed: list[int] = []

    def run() -> None:
        if threading.current_thread() is threading.main_thread() and not passed:
            passed.append(1)
            hook()

    return run


def die() -> None:
    raise Killed


class Rig:
    """A stream in a registry, with a query in this process in the place of its driver."""

    def __init__(self, lab: Any, registry: Registry, operator: Runner, catalog: Any) -> None:
        self.lab, self.registry, self.operator, self.catalog = lab, registry, operator, catalog
        self.topic, self.sent, self.query = lab.topic(), 0, None
        self.old = lab.spec(
            self.topic, source={"kafka": {"topics": [self.topic], "max_offsets_per_trigger": 4}}, lineage="rows",
            rules={"small": "n < 7"},
        )  # fmt: skip
        sink = {"iceberg": {"table": f"{lab.namespace}.t", "partition_by": ["bucket(2, n)"]}}
        self.new = {
            **self.old, "rules": {}, "transform": {"sql": "SELECT *, n * 2 AS m FROM source"}, "sink": sink,
            "schema": {"evolution": "additive"},
        }  # fmt: skip
        self.stream, self.table = self.old["id"], f"{lab.namespace}.t"
        self.wanted = lab.wanted(self.old)

    def deploy(self) -> None:
        """Generation 1 runs, 2 waits."""
        deployed(self.registry, self.old, self.wanted.checkpoint)
        with self.registry() as connection:
            streams.set_desired(connection, [self.stream], "running")
            generations.add(
                connection, stream=self.stream, generation=2, spec=StreamSpec.model_validate(self.new).document(),
                digest="e", sql=None, code={}, versions={}, author="ann", checkpoint=self.wanted.checkpoint,
            )  # fmt: skip
            streams.set_pending(connection, self.stream, 2)

    def start(self) -> None:
        """What a driver would run now, as it would."""
        now = accepted(self.registry, self.stream, self.wanted)
        self.query = self.lab.starter().start(replace(now, document=self.old if now.generation == 1 else self.new))
        self.lab.started.append(self.query)

    def stop(self) -> None:
        if self.query is not None:
            assert self.query.stop(60)
        self.query = None

    def land(self, *values: Any) -> None:
        """Records, and the running query has landed them."""
        self.lab.produce(self.topic, list(values))
        self.sent += len(values)
        self.lab.until_batch("the live rows", lambda: self.end() == self.sent)

    def position(self, table: str | None = None) -> position.Position:
        loaded = self.catalog.load_table(table or self.table)
        return position.parse(loaded.properties[position.key(self.stream)], self.stream, self.table)

    def end(self) -> int:
        with suppress(Exception):
            return plan.places(self.position().end["source"])[self.topic, 0]
        return 0

    @contextmanager
    def spark(self, plan: RebuildPlan) -> Iterator[Fill]:
        wanted = Assignment(plan.stream, plan.target.generation, plan.target.spec, "")
        yield Fill(self.lab.spark, wanted, self.lab.runtime, plan.made, plan.fill, plan.start)

    def rebuild(self, **more: Any) -> Outcome:
        request = Request(Rebuild.name, self.stream, "m was missing")
        return self.operator.run(Rebuild(self.operator, request, Options(**more), self.spark))

    def killed(self, at: str) -> None:
        """Run it until it is killed there; then time passes, and the next reconcile ends what was left."""
        with failpoints.on(at, once(die)), pytest.raises(Killed):
            self.rebuild()
        with self.registry() as connection:
            connection.execute(sa.text("UPDATE leases SET until = now() - interval '1 s'"))
            connection.execute(sa.text("UPDATE operations SET requested_at = requested_at - interval '1 h'"))
            abandoned_operations.finish(connection)
            assert streams.get(connection, self.stream).desired == "running"


@pytest.fixture
def rig(lab: Any, registry: Registry, operator: Runner, catalog: Any) -> Rig:
    return Rig(lab, registry, operator, catalog)


KILLS = (
    "after-publish", "rebuild-landed", "rebuild-between-renames", "rebuild-swapped", "rebuild-relabelled",
)  # fmt: skip


@pytest.mark.parametrize(
    "kills",
    [
        ("rebuild-between-renames", "rebuild-swapped"),
        pytest.param(
            KILLS,
            marks=pytest.mark.campaign(
                held_by="test_every_record_is_in_the_new_table_once_whoever_is_killed_and_whoever_lands_meanwhile"
            ),
        ),
    ],
    ids=["two steps", "each step"],
)
def test_every_record_is_in_the_new_table_once_whoever_is_killed_and_whoever_lands_meanwhile(
    rig: Rig, catalog: Any, kills: tuple[str, ...]
) -> None:
    rig.deploy()
    rig.start()
    rig.land({"n": 0}, {"n": 1}, "junk", {"n": 3}, {"n": 4}, {"n": 5}, {"n": 6}, {"n": 7}, {"n": 8})
    assert {row["_kafka_offset"] for row in rig.lab.rows()} == {0, 1, 3, 4, 5, 6}, "a rule kept the others aside"
    before = rig.position()
    old = catalog.load_table(rig.table).metadata.table_uuid

    planned = plan.plan(rig.operator, rig.stream, Options())
    assert (planned.target.generation, planned.records, planned.missing_rows.number) == (2, 9, 0)
    assert planned.data["into"] == f"{rig.table}_rebuild_1"

    if "after-publish" in kills:
        rig.killed("after-publish")  # while it fills
    rig.land({"n": 9})

    if "rebuild-landed" in kills:
        with failpoints.on("rebuild-stopped", rig.stop):
            rig.killed("rebuild-landed")  # stopped, and everything landed
        rig.start()
    rig.land({"n": 10})

    with failpoints.on("rebuild-stopped", rig.stop):
        rig.killed("rebuild-between-renames")
    assert catalog.load_table(rig.table).metadata.table_uuid == old, "both names change, or none"
    assert not catalog.table_exists(f"{rig.table}_before_1")
    rig.start()
    rig.land({"n": 11})

    def somebody_lands() -> None:
        rig.land({"n": 12})  # a driver that was thought stopped
        rig.stop()

    with failpoints.on("rebuild-before-swap", once(somebody_lands)):
        rig.killed("rebuild-swapped")
    assert catalog.load_table(rig.table).metadata.table_uuid != old
    rig.start()
    rig.land({"n": 13}, "junk too")  # on the new table, before anything is tidied

    if "rebuild-relabelled" in kills:
        rig.killed("rebuild-relabelled")
    done = rig.rebuild()
    assert "finished an interrupted rebuild" in done.detail
    rig.land({"n": 15})
    rig.stop()

    offsets = sorted(row["_kafka_offset"] for row in rig.lab.rows())
    assert offsets == [each for each in range(rig.sent) if each not in (2, 14)]
    assert all(row["m"] == 2 * row["n"] for row in rig.lab.rows()), "not one row of the old transform"
    found = audit(rig.lab.runtime, StreamSpec.model_validate(rig.new))
    told = {name: found[name] for name in ("consumed", "landed", "quarantined", "missing", "duplicates", "beyond")}
    assert told == {"consumed": 16, "landed": 14, "quarantined": 2, "missing": 0, "duplicates": 0, "beyond": 0}
    at = rig.position()
    assert at.seq > before.seq
    assert (at.query_id, at.generation) == (before.query_id, 2), "the checkpoint that ran goes on"

    table, kept = catalog.load_table(rig.table), catalog.load_table(f"{rig.table}_before_1")
    assert kept.metadata.table_uuid == old
    assert position.streams_of(kept.properties) == [], "no driver reads the old table's position"
    assert names.retired(rig.stream) in kept.properties
    assert position.streams_of(table.properties) == [rig.stream]
    assert names.marker(rig.stream) not in table.properties
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[2]"]
    aside = {(row["stream"], row["_kafka_offset"]) for row in rig.lab.rows("q")}
    by_the_old = {(f"{rig.stream}@before-1", each) for each in (2, 7, 8, 9, 10)}
    assert aside == {(rig.stream, 2), (rig.stream, 14)} | by_the_old
    with rig.registry() as connection:
        row = streams.get(connection, rig.stream)
        made = [each for each in changes.newest(connection, "stream", rig.stream) if each.change == "rebuild"]
        assert [each.result for each in operations.newest(connection, rig.stream)][:1] == ["done"]
    assert (row.generation, row.pending_generation, row.desired) == (2, None, "running")
    assert len(made) == 1, "told once"
    assert (made[0].comment, made[0].detail["landed"]) == ("m was missing", 12)


@pytest.mark.campaign(
    held_by="test_every_record_is_in_the_new_table_once_whoever_is_killed_and_whoever_lands_meanwhile"
)
def test_rows_the_source_has_no_more_are_counted_and_what_is_wrong_is_not_swapped(rig: Rig, catalog: Any) -> None:
    rig.deploy()
    rig.start()
    rig.land(*({"n": each} for each in range(6)))
    rig.stop()
    cut_off(rig, 2)
    rig.lab.spark.sql(f"INSERT INTO lake.{rig.table} (n, s) VALUES (99, 'by hand')")
    with pytest.raises(Refused, match="would be missing in the rebuilt table") as refused:
        rig.rebuild()
    assert refused.value.what.startswith("3 rows")
    assert "2 rows of records before offset 2" in refused.value.why
    assert "1 row of no record" in refused.value.why
    assert not catalog.table_exists(f"{rig.table}_rebuild_1"), "nothing was begun"

    def by_hand() -> None:
        rig.lab.spark.sql(f"DELETE FROM lake.{rig.table}_rebuild_1 WHERE n = 4")

    with failpoints.on("rebuild-landed", once(by_hand)), pytest.raises(Unhealthy, match="nothing was swapped") as wrong:
        rig.rebuild(accept_lost=3)
    assert "1 are missing" in wrong.value.why
    with rig.registry() as connection:
        row = streams.get(connection, rig.stream)
    assert (row.desired, row.generation, row.pending_generation) == ("running", 1, 2), "the stream goes on as before"
    rig.lab.spark.sql(f"DROP TABLE lake.{rig.table}_rebuild_1")

    done = rig.rebuild(accept_lost=3)
    assert (done.data["landed"], done.data["lost"]) == (4, 3)
    assert done.data["partitions"][0]["rows_before"] == 4
    rig.start()
    rig.land({"n": 6})
    assert sorted(row["_kafka_offset"] for row in rig.lab.rows()) == [2, 3, 4, 5, 6]
    rig.stop()
    with pytest.raises(Refused, match="uses the folder"):
        plan.plan(rig.operator, rig.stream, Options(into=f"{rig.table}_rebuild_1", accept_lost=3))
    assert plan.plan(rig.operator, rig.stream, Options()).made == f"{rig.table}_rebuild_2"


def cut_off(rig: Rig, offset: int) -> None:
    """Retention takes the records before an offset."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": rig.lab.kafka.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(rig.topic, 0, offset)]).values()
    assert deleted.result(30).low_watermark == offset


@pytest.mark.campaign(
    held_by="test_every_record_is_in_the_new_table_once_whoever_is_killed_and_whoever_lands_meanwhile"
)
def test_a_damaged_table_of_keys_is_made_again_by_the_generation_that_runs(rig: Rig, catalog: Any) -> None:
    sink = {"iceberg": {"table": rig.table, "mode": "upsert", "keys": ["k"], "order_by": "v", "delete_when": "v = 9"}}
    rig.old = {
        **rig.old, "decode": {"json": "k INT, v INT"}, "transform": {"sql": "SELECT k, v FROM source"}, "sink": sink,
        "lineage": "none", "rules": {},
    }  # fmt: skip
    rig.wanted = rig.lab.wanted(rig.old)
    deployed(rig.registry, rig.old, rig.wanted.checkpoint)
    rig.start()
    rig.land({"k": 0, "v": 1}, {"k": 1, "v": 1}, {"k": 2, "v": 1}, {"k": 1, "v": 2}, {"k": 2, "v": 9})
    rig.stop()
    before = rig.position()
    (first, *_) = catalog.load_table(rig.table).snapshots()
    rig.lab.spark.sql(f"CALL lake.system.rollback_to_snapshot('{rig.table}', {first.snapshot_id})")
    with pytest.raises(Blocked, match="rolled back"):
        rig.start()
    cut_off(rig, 1)
    with pytest.raises(Refused, match="1 record of") as refused:
        rig.rebuild()
    assert f"{rig.topic}/0: 1 record, offsets 0 to 0" in refused.value.why

    history, (first_, third) = f"{rig.lab.namespace}.history", (render({rig.topic: {0: each}}) for each in (1, 3))
    backfill(rig.lab.spark, rig.wanted, rig.lab.runtime, first_, third, into=history)
    planned = plan.plan(rig.operator, rig.stream, Options(into=history))
    assert planned.at == third, "what a backfill landed is taken over"
    done = rig.rebuild(accept_lost=1, into=history)
    assert done.data["position"] == f"{rig.stream}@backfill-1"
    assert "the stream stays stopped" in done.detail
    assert (done.data["generation"], done.data["missing"]) == (1, None)
    assert [(row["k"], row["v"]) for row in rig.lab.rows()] == [(1, 2)]
    assert (rig.position().seq, rig.position().batch) == (before.seq + 1, before.batch)
    rig.start()
    rig.land({"k": 3, "v": 1})
    rig.stop()
    assert sorted((row["k"], row["v"]) for row in rig.lab.rows()) == [(1, 2), (3, 1)]
