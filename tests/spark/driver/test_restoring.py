"""A table taken back to an earlier snapshot under its stream: what was taken out lands again, each record once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from moved_rig import Registry, accepted, deployed

from lakeward.cli.streams.audit import audit
from lakeward.connectors.commit_protocol import position
from lakeward.driver.recorder import Recorder
from lakeward.operations.rebuild.plan import places
from lakeward.operations.request import Approval, Outcome, Request
from lakeward.operations.restore import plan as planning
from lakeward.operations.restore.restore import MARKER, Restore
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Fenced, Refused
from lakeward.registry import changes, generations, maintenance, operations, streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import abandoned_operations
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes


class Killed(BaseException):
    """Nobody cleans up after it: as after SIGKILL."""


def die() -> None:
    raise Killed


class Rig:
    """A stream in a registry, with a query in this process in the place of its driver."""

    def __init__(self, lab: Any, registry: Registry, operator: Runner, catalog: Any, **more: Any) -> None:
        self.lab, self.registry, self.operator, self.catalog = lab, registry, operator, catalog
        self.topic, self.sent, self.query, self.told = lab.topic(), 0, None, 0
        source = {"kafka": {"topics": [self.topic], "max_offsets_per_trigger": 3}}
        self.document = lab.spec(self.topic, source=source, **{"lineage": "rows", "rules": {"small": "n < 90"}} | more)
        self.stream, self.table = self.document["id"], f"{lab.namespace}.t"
        self.wanted = lab.wanted(self.document)
        deployed(registry, self.document, self.wanted.checkpoint)
        with registry() as connection:
            streams.set_desired(connection, [self.stream], "running")

    def start(self) -> None:
        """What a driver would run now, as it would."""
        now = accepted(self.registry, self.stream, self.wanted)
        self.query = self.lab.starter().start(replace(now, document=self.document))
        self.lab.started.append(self.query)

    def stop(self) -> None:
        if self.query is not None:
            assert self.query.stop(60)
        self.query = None
        self.tell()

    def tell(self) -> None:
        """The registry hears of every batch, as from a driver."""
        recorder, new = Recorder(self.registry, "d"), self.lab.done[self.told :]
        self.told += len(new)
        for done in new:
            recorder.note_batch(done)
        recorder.close()

    def land(self, *values: Any) -> int:
        """Records, and the running query has landed them; the snapshot then."""
        self.lab.produce(self.topic, list(values))
        self.sent += len(values)
        self.lab.until("the rows", lambda: self.end() == self.sent)
        return int(self.catalog.load_table(self.table).metadata.current_snapshot_id)

    def position(self) -> position.Position:
        loaded = self.catalog.load_table(self.table)
        return position.parse(loaded.properties[position.key(self.stream)], self.stream, self.table)

    def end(self) -> int:
        with suppress(Exception):
            return int(places(self.position().end["source"])[self.topic, 0])
        return 0

    def verify(self, snapshot: int) -> None:
        with self.catalog.load_table(self.table).manage_snapshots() as change:
            change.create_branch(snapshot, "verified")

    def restore(self, to: int, *, yes: bool = True) -> Outcome:
        operation = Restore(self.operator, Request(Restore.name, self.table, "bad rows"), to)
        if yes and operation.interrupted_plan() is None:
            operation = operation.answered("", Approval("bob", operation.plan().key))
        return self.operator.run(operation)

    def killed(self, at: str, to: int) -> None:
        """Run it until it is killed there; then time passes, and the next reconcile ends what was left."""
        with failpoints.on(at, die), pytest.raises(Killed):
            self.restore(to)
        with self.registry() as connection:
            connection.execute(sa.text("UPDATE leases SET until = now() - interval '1 s'"))
            connection.execute(sa.text("UPDATE operations SET requested_at = requested_at - interval '1 h'"))
            abandoned_operations.finish(connection)
            assert streams.get(connection, self.stream).desired == "running"


@pytest.fixture
def rig(lab: Any, registry: Registry, operator: Runner, catalog: Any) -> Rig:
    return Rig(lab, registry, operator, catalog)


def once(hook: Callable[[], None]) -> Callable[[], None]:
    passed: list[int] = []

    def run() -> None:
        if not passed:
            passed.append(1)
            hook()

    return run


@pytest.mark.campaign(
    held_by="tests/spark/tables/test_kills.py::"
    "test_a_restore_and_an_erase_that_were_killed_are_finished_by_the_same_command"
)
@pytest.mark.parametrize(
    "kills", [("restore-before-commit", "restore-moved", "restore-one-settled")], ids=["each step"]
)
def test_what_was_taken_out_lands_again_once_wherever_it_is_killed(
    rig: Rig, catalog: Any, kills: tuple[str, ...]
) -> None:
    rig.start()
    to = rig.land({"n": 0}, {"n": 1}, "junk")
    rig.verify(to)
    rig.land({"n": 3}, {"n": 99}, {"n": 5}, {"n": 6})
    rig.stop()
    before = rig.position()
    rig.lab.spark.sql(f"INSERT INTO lake.{rig.table} (n, s) VALUES (7, 'by hand')")
    rig.start()
    rig.land({"n": 7})
    with rig.catalog.load_table(rig.table).manage_snapshots() as change:
        change.remove_branch("verified")
    rig.verify(int(catalog.load_table(rig.table).metadata.current_snapshot_id))

    rig.tell()
    planned = planning.plan(rig.operator, rig.table, to)
    assert planned.drains == (rig.stream,)
    assert planned.data["streams"][0]["replayed"] == [
        {"source": "source", "partition": f"{rig.topic}/0", "from": 3, "to": 8}
    ]
    assert f"{rig.stream}: 4 rows removed, and their records land again" in planned.lines
    assert f"  {rig.topic}/0: 5 records (3 to 7)" in planned.lines
    assert any("1 rows added, 0 removed) is not of a stream: it is lost" in line for line in planned.lines)
    with pytest.raises(Refused, match="needs a person's approval"):
        rig.restore(to, yes=False)

    if "restore-before-commit" in kills:
        with failpoints.on("restore-stopped", once(rig.stop)):
            rig.killed("restore-before-commit", to)
        assert {row["n"] for row in rig.lab.rows()} == {0, 1, 3, 5, 6, 7}, "nothing had been done"
        rig.start()
    rig.land({"n": 8})

    def somebody_commits() -> None:
        rig.lab.spark.sql(f"DELETE FROM lake.{rig.table} WHERE n = 6")

    with (
        failpoints.on("restore-stopped", once(rig.stop)),
        failpoints.on("restore-before-commit", somebody_commits),
        pytest.raises(Fenced, match="another commit came first"),
    ):
        rig.restore(to)
    with rig.registry() as connection:
        assert streams.get(connection, rig.stream).desired == "running", "the stream goes on as before"

    rig.killed("restore-moved", to)
    assert sorted(row["_kafka_offset"] for row in rig.lab.rows()) == [0, 1], "data, position and branch at once"
    at, table = rig.position(), catalog.load_table(rig.table)
    assert (at.end, at.snapshot, at.query_id) == ({"source": f'{{"{rig.topic}":{{"0":3}}}}'}, to, "")
    assert (at.totals.consumed, at.totals.landed, at.totals.quarantined, at.totals.filtered) == (3, 2, 1, 0)
    assert at.seq > before.seq
    assert "verified" not in table.metadata.refs, "nothing was proved of what stays"
    rig.lab.produce(rig.topic, [{"n": 9}])
    rig.sent += 1
    early = rig.lab.fail(rig.document)
    assert "does not start at its position in" in str(early), "a driver that comes too early is turned away"
    rig.lab.started.clear()

    if "restore-one-settled" in kills:
        rig.killed("restore-one-settled", to)
    done = rig.restore(to)
    assert done.data["records_after"] == 2
    assert MARKER not in catalog.load_table(rig.table).properties
    rig.start()
    rig.lab.until("what was taken out", lambda: rig.end() == rig.sent)
    rig.land({"n": 10})
    rig.stop()

    assert sorted(row["_kafka_offset"] for row in rig.lab.rows()) == [0, 1, 3, 5, 6, 7, 8, 9, 10]
    assert sorted(row["_kafka_offset"] for row in rig.lab.rows("q")) == [2, 4]
    found = audit(rig.lab.runtime, StreamSpec.model_validate(rig.document))
    told = {name: found[name] for name in ("consumed", "landed", "quarantined", "missing", "duplicates", "beyond")}
    assert told == {"consumed": 11, "landed": 9, "quarantined": 2, "missing": 0, "duplicates": 0, "beyond": 0}
    with rig.registry() as connection:
        row = streams.get(connection, rig.stream)
        kept = generations.get(connection, rig.stream, row.generation)
        made = [each for each in changes.newest(connection, "table", rig.table) if each.change == "restore"]
        ledger = maintenance.newest_actions(connection, rig.table)
        assert operations.newest(connection, rig.stream)[0].result == "done"
    assert (row.desired, row.blocked, row.generation) == ("running", None, 2)
    assert kept is not None
    assert kept.checkpoint.endswith(".2")
    assert [(each.comment, each.detail["to_snapshot"]) for each in made] == [("bad rows", to)], "told once"
    assert (ledger[0]["action"], ledger[0]["result"], ledger[0]["after"]["records"]) == ("restore", "done", 2)
    again = rig.restore(to)  # to a place below what it stands on: once more, by the same record
    assert again.data["streams"][0]["replayed"][0]["from"] == 3


@pytest.mark.campaign(
    held_by="tests/unit/connectors/iceberg/test_document_updates.py::test_a_position_is_set_and_properties_are_amended"
)
def test_a_table_of_format_version_3_is_taken_back_and_goes_on(
    lab: Any, registry: Registry, operator: Runner, catalog: Any
) -> None:
    """PyIceberg does not write its metadata: the position, the branch and main move in the document."""
    sink = {"iceberg": {"table": f"{lab.namespace}.t", "properties": {"format-version": "3"}}}
    rig = Rig(lab, registry, operator, catalog, sink=sink)
    rig.start()
    to = rig.land({"n": 0}, {"n": 1}, {"n": 2})
    rig.verify(to)
    rig.land({"n": 3}, {"n": 4})
    rig.tell()
    rows = catalog.load_table(rig.table).metadata.next_row_id
    with failpoints.on("restore-stopped", once(rig.stop)):
        assert rig.restore(to).result == "done"
    table = catalog.load_table(rig.table)
    assert (table.metadata.format_version, table.metadata.current_snapshot_id) == (3, to)
    assert table.metadata.next_row_id == rows, "row ids are never given twice"
    assert (rig.position().snapshot, table.metadata.refs["verified"].snapshot_id) == (to, to)

    rig.start()
    rig.lab.until("what was taken out", lambda: rig.end() == rig.sent)
    rig.land({"n": 5})
    rig.stop()
    assert sorted(row["_kafka_offset"] for row in rig.lab.rows()) == list(range(6))
    ids = lab.spark.sql(f"SELECT _row_id FROM lake.{rig.table}").collect()
    assert len({row["_row_id"] for row in ids}) == 6
    found = audit(rig.lab.runtime, StreamSpec.model_validate(rig.document))
    told = {name: found[name] for name in ("consumed", "landed", "missing", "duplicates")}
    assert told == {"consumed": 6, "landed": 6, "missing": 0, "duplicates": 0}
