"""Publication by exact compare-and-set: zombies, outages of the catalog, the position written without data."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import seeds
from seeds import seed

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.iceberg import publish
from lakeward.connectors.iceberg.change import Append, Change, Upsert
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.platform.errors import Fenced, Transient
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEQS = int(os.environ.get("LAKEWARD_RACED_SEQS", "10" if os.environ.get(seeds.VARIABLE) else "4"))
"""How many batches the two writers race for; more at night and in a run of their own."""
ROWS = 4


@dataclass
class Planned(IcebergWriter):
    """A writer whose batch is planned by the test: two of them can hold the very same batch."""

    def running(self, batch_id: int) -> RunningBatch:
        return RunningBatch("q", batch_id, {"source": str(ROWS * batch_id)}, {"source": str(ROWS * (batch_id + 1))})


def _land(session: SparkSession, table: str, batch: int, writer: IcebergWriter | None = None) -> BatchResult:
    rows = [("t", 0, value, str(value), "k") for value in range(ROWS * batch, ROWS * (batch + 1))]
    names = ["_kafka_topic", "_kafka_partition", "_kafka_offset", "value", "kind"]
    schema = "_kafka_topic STRING, _kafka_partition INT, _kafka_offset BIGINT, value STRING, kind STRING"
    frame = session.createDataFrame(rows, schema).select(*names)
    return (writer or Planned(session, "flights", table, "none", stateful=False)).land(frame, batch)


@pytest.mark.seeded
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            Append(),
            marks=pytest.mark.campaign(held_by="test_two_writers_land_each_batch_once_while_the_table_is_maintained"),
        ),
        Upsert(["_kafka_offset"]),
    ],
    ids=["append", "upsert"],
)
def test_two_writers_land_each_batch_once_while_the_table_is_maintained(rig: Any, change: Change) -> None:
    """A driver and its zombie hold the same batches; sleeps fall between check, staging and publication."""
    chance = random.Random(seed(12))
    ended, outcomes, failures = threading.Event(), Counter[str](), list[BaseException]()

    def pause() -> None:
        time.sleep(chance.uniform(0, 0.25))

    def land(session: SparkSession, batch: int) -> str:
        writer = Planned(session, "flights", rig.table, "none", stateful=False, change=change)
        while True:
            try:
                return "already" if _land(session, rig.table, batch, writer).already else "landed"
            except Fenced:
                return "fenced"
            except Transient:  # maintenance came in between every time, which it does without a pause here
                continue

    def land_all(barrier: threading.Barrier) -> None:
        session = rig.spark.newSession()
        for batch in range(SEQS):
            barrier.wait(120)
            outcomes[land(session, batch)] += 1

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  # shown by the test, which joins the threads
                failures.append(error)
                barrier.abort()

        return run

    def maintain() -> None:
        while not ended.wait(0.7):
            with suppress(Exception):  # losing a race against the writers is part of it
                rig.call("rewrite_data_files", options="map('rewrite-all','true')")
            with suppress(Exception):
                rig.call("expire_snapshots", older_than="TIMESTAMP '2100-01-01 00:00:00'", retain_last="1")

    barrier = threading.Barrier(2)
    writers = [threading.Thread(target=guarded(lambda: land_all(barrier))) for _ in range(2)]
    keeper = threading.Thread(target=maintain)
    with failpoints.on("after-check", pause), failpoints.on("after-stage", pause):
        keeper.start()
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        ended.set()
        keeper.join()

    assert not failures, "\n".join(str(failure) for failure in failures)
    assert rig.values() == list(range(ROWS * SEQS)), outcomes
    assert outcomes["landed"] == SEQS, "each seq is published by exactly one of the two"
    assert sum(outcomes.values()) == 2 * SEQS
    assert rig.position().seq == SEQS
    assert rig.position().totals.landed == ROWS * SEQS


def test_a_position_written_while_a_batch_is_staged_fences_its_driver(rig: Any) -> None:
    """Reset and import: a driver that is cut off from the registry is stopped by the table itself."""
    _land(rig.spark, rig.table, 0)
    raw = rig.metadata().properties().get(key("flights"))

    def reset() -> None:
        new = rig.position().model_copy(update={"seq": 2, "query_id": "", "batch": -1, "attempt": "reset/1"})
        publish.write_position(rig.spark, rig.table, "flights", new, raw)

    with failpoints.on("after-stage", reset), pytest.raises(Fenced, match="Another writer moved its position"):
        _land(rig.spark.newSession(), rig.table, 1)

    assert rig.values() == list(range(ROWS))
    assert rig.position().seq == 2


def test_a_position_is_written_only_over_the_one_that_was_read(rig: Any) -> None:
    first = Position(seq=1, query_id="", batch=-1, end={"source": "0"}, attempt="import/1")

    moved = publish.write_position(rig.spark, rig.table, "flights", first, None)

    assert rig.position() == moved
    with pytest.raises(publish.PositionMoved):
        publish.write_position(rig.spark, rig.table, "flights", first, None)
    assert [each.seq for each in [_land(rig.spark.newSession(), rig.table, 0)]] == [2]


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(
            "a compaction",
            marks=pytest.mark.campaign(
                held_by="test_a_change_that_depends_on_what_it_read_is_done_again_when_the_head_moved"
            ),
        ),
        "the same key",
    ],
)
def test_a_change_that_depends_on_what_it_read_is_done_again_when_the_head_moved(rig: Any, meanwhile: str) -> None:
    """Its operation does not tell: an insert-only MERGE is an append, and would double a key."""
    _land(rig.spark, rig.table, 0)
    staged: list[int] = []
    writer = Planned(
        rig.spark.newSession(), "flights", rig.table, "none", stateful=False, change=Upsert(["_kafka_offset"])
    )

    def after_stage() -> None:
        staged.append(1)
        if len(staged) > 1:
            return
        if meanwhile == "a compaction":
            rig.call("rewrite_data_files", options="map('rewrite-all','true')")
        else:
            rig.spark.sql(f"INSERT INTO lake.{rig.table} VALUES ('t', 0, {ROWS}, '{ROWS}', 'foreign')")

    with failpoints.on("after-stage", after_stage):
        _land(writer.session, rig.table, 1, writer)

    assert len(staged) == 2
    assert rig.values() == list(range(2 * ROWS))


@contextmanager
def _no_connections(postgres: Any, lake: Any) -> Iterator[None]:
    """PostgreSQL lets nobody into the catalog's database and ends who is in."""
    from psycopg2 import sql

    def say(statement: Any, *values: str) -> None:
        link = postgres._server.connect("postgres", "postgres", password=postgres.admin_password)
        with closing(link), link.cursor() as cursor:
            link.autocommit = True
            cursor.execute(statement, values)

    name = sql.Identifier(lake.database)
    say(sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false").format(name))
    say("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", lake.database)
    try:
        yield
    finally:
        say(sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS true").format(name))


@pytest.mark.parametrize(
    "step",
    [
        "after-publish",
        *(
            pytest.param(each, marks=pytest.mark.campaign(held_by="test_an_outage_of_the_catalog_is_waited_out"))
            for each in ("after-check", "after-stage", "before-publish")
        ),
    ],
)
def test_an_outage_of_the_catalog_is_waited_out(rig: Any, postgres: Any, lake: Any, step: str) -> None:
    """Whatever step it hits: no query fails, nothing is lost, nothing lands twice."""
    rig.produce(4)
    rig.run()
    rig.produce(4)
    held = ExitStack()
    back = threading.Timer(2, held.close)

    def outage() -> None:
        if not back.ident:
            held.enter_context(_no_connections(postgres, lake))
            back.start()

    with failpoints.on(step, outage):
        landed = rig.run()
    back.join()

    assert [(each.seq, each.already) for each in landed] == [(2, False)]
    assert rig.values() == rig.expected()


def test_connections_that_a_restart_of_the_catalog_cut_are_opened_again(rig: Any, postgres: Any, lake: Any) -> None:
    rig.patience_s = 0
    rig.produce(4)
    rig.run()
    rig.produce(4)

    def restart() -> None:
        with _no_connections(postgres, lake):
            pass

    with failpoints.on("after-check", restart), failpoints.on("before-publish", restart):
        landed = rig.run()
    restart()

    assert [(each.seq, each.already) for each in landed] == [(2, False)]
    assert rig.values() == rig.expected()
