"""Landing exactly once: replays, empty batches, lost answers, on real Spark, Kafka, Iceberg and PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.connectors.iceberg import jvm
from lakeward.platform.errors import Blocked, Transient
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    pass


@pytest.mark.campaign(
    held_by="tests/unit/connectors/commit_protocol/test_contract.py::"
    "test_batches_land_in_order_and_the_position_counts_them"
)
def test_batches_land_in_order_and_the_position_counts_them(rig: Any) -> None:
    """From an empty topic on: its batch without records sets the first position."""
    rig.per_batch = 4
    landed = rig.run()
    rig.produce(10)

    landed += rig.run()

    assert rig.values() == rig.expected()
    assert [each.seq for each in landed] == [1, 2, 3, 4]
    assert [each.counts.landed for each in landed] == [0, 4, 4, 2]
    assert landed[0].start == {"source": rig.offsets(0, 0)}
    assert landed[-1].end == {"source": rig.offsets(5, 5)}
    position = rig.position()
    assert position == landed[-1].position
    assert (position.seq, position.batch, position.generation) == (4, 3, 3)
    assert position.begin == {"source": rig.offsets(0, 0)}
    assert position.end == {"source": rig.offsets(5, 5)}
    assert position.snapshot == rig.head() == landed[-1].snapshot
    assert position.totals.landed == 10
    before = rig.metadata().metadataFileLocation()
    assert rig.run() == []
    assert rig.metadata().metadataFileLocation() == before, "nothing new writes nothing"


def test_a_published_batch_runs_again_after_compaction_and_the_tightest_expiry(rig: Any) -> None:
    """The native sink lands its rows twice here: it finds its epoch only in snapshots that expiry took."""
    rig.produce(17)
    rig.run()
    rig.forget_commit()
    rig.maintain()

    replayed = rig.run()

    assert [each.already for each in replayed] == [True]
    assert rig.values() == rig.expected()
    rig.produce(3)
    assert [each.seq for each in rig.run()] == [2]
    assert rig.values() == rig.expected()


@pytest.mark.campaign
def test_the_native_sink_lands_those_rows_twice(rig: Any, tmp_path: Path) -> None:
    """What we measure ourselves against. When this fails, the engine has learned something: read it again."""
    rig.produce(17)
    checkpoint = rig.checkpoint

    def native() -> None:
        writer = rig.read().writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = writer.toTable(f"lake.{rig.table}")
        query.awaitTermination()

    native()
    rig.forget_commit()
    rig.maintain()
    native()

    assert len(rig.values()) == 34


def test_a_lost_commit_log_lands_nothing_twice(rig: Any) -> None:
    rig.per_batch = 4
    rig.produce(10)
    rig.run()
    for batch in range(3):
        rig.forget_commit(batch)

    rig.run()

    assert rig.values() == rig.expected()


@pytest.mark.campaign(
    held_by="tests/unit/connectors/commit_protocol/test_contract.py::"
    "test_offsets_that_advance_without_rows_are_published"
)
def test_offsets_that_advance_without_rows_are_published(rig: Any) -> None:
    rig.shape = lambda rows: rows.where("CAST(value AS INT) < 4")
    rig.produce(4)
    rig.run()
    rig.produce(6)

    landed = rig.run()

    assert rig.values() == [0, 1, 2, 3]
    assert [(each.seq, each.counts.landed, each.written) for each in landed] == [(2, 0, True)]
    assert rig.position().end == {"source": rig.offsets(5, 5)}
    assert rig.head() == rig.position().snapshot


@pytest.mark.campaign(
    held_by="tests/unit/connectors/commit_protocol/test_contract.py::"
    "test_a_batch_without_rows_that_advances_nothing_leaves_the_sink_as_it_was"
)
def test_a_batch_without_rows_that_advances_nothing_leaves_the_table_as_it_was(rig: Any) -> None:
    """A watermark moves on by itself: Spark runs a batch of no data, the table must not take notice."""
    rig.stateful = None
    rig.shape = lambda rows: (
        rows.selectExpr("timestamp_seconds(CAST(value AS INT) * 60) at")
        .withWatermark("at", "10 seconds")
        .groupBy("at")
        .count()
        .selectExpr(
            "CAST(NULL AS STRING) _kafka_topic",
            "CAST(NULL AS INT) _kafka_partition",
            "count _kafka_offset",
            "CAST(unix_seconds(at) AS STRING) value",
            "CAST(NULL AS STRING) kind",
        )
    )
    rig.produced = 10
    rig.produce(1)
    first = rig.run()
    rig.produced = 20
    rig.produce(1)
    second = rig.run()

    # The first record opens a window and moves the watermark: the batch of no data emits nothing and moves no offset.
    assert [(each.seq, each.written, each.start == each.end) for each in first] == [(1, True, False), (1, False, True)]
    assert first[1].snapshot is None
    # The second one closes that window: its batch of no data has a row, and must land it though no offset moves.
    assert [(each.seq, each.written, each.counts.landed) for each in second] == [(2, True, 0), (3, True, 1)]
    assert second[1].start == second[1].end
    assert rig.values() == [600]


def test_a_stateful_query_can_run_its_landed_batch_again(rig: Any) -> None:
    """Its state store commits only by being executed; a skipped batch would fail the query at every restart."""
    rig.stateful = None
    rig.shape = lambda rows: rows.dropDuplicates(["value"])
    rig.produce(6)
    rig.run()
    rig.forget_commit()

    assert [each.already for each in rig.run()] == [True]
    rig.produce(2)
    rig.run()
    assert rig.values() == rig.expected()


@pytest.mark.campaign
def test_a_stateful_query_fails_if_its_landed_batch_is_skipped(rig: Any) -> None:
    """The guard above is needed: told that the query has no state, the writer skips the rows and Spark refuses."""
    rig.stateful = False
    rig.shape = lambda rows: rows.dropDuplicates(["value"])
    rig.produce(6)
    rig.run()
    rig.forget_commit()

    with pytest.raises(Exception, match=r"STATE_STORE|state"):
        rig.run()


def test_an_answer_lost_after_the_commit_is_found_to_have_landed(rig: Any) -> None:
    rig.produce(5)
    lost = [_sql_error(rig.spark)]

    def lose() -> None:
        if lost:
            raise lost.pop()

    with failpoints.on("after-publish", lose):
        landed = rig.run()

    assert [(each.seq, each.already, each.counts.landed) for each in landed] == [(1, False, 5)]
    assert rig.values() == rig.expected()


def _sql_error(spark: Any) -> Exception:
    """What the catalog throws when PostgreSQL goes away in the middle: a real Java exception, through py4j."""
    from py4j.protocol import Py4JJavaError

    cause = spark._jvm.java.sql.SQLException("This connection has been closed.")
    arguments = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 0)
    thrown = spark._jvm.org.apache.iceberg.jdbc.UncheckedSQLException(cause, "Unknown failure", arguments)
    error = Py4JJavaError.__new__(Py4JJavaError)
    Exception.__init__(error, "lost")
    error.java_exception = thrown
    return error


def test_two_streams_append_to_one_table(rig: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    other = replace(rig, stream="other", checkpoint=tmp_path / "other", landed=[])
    rig.produce(4)
    rig.run()
    other.run()
    rig.produce(2)
    rig.run()
    rig.maintain()
    other.produced = rig.produced
    other.run()

    assert rig.values() == sorted(rig.expected() * 2)
    assert (rig.position().seq, other.position().seq) == (2, 2)


@pytest.mark.campaign(
    held_by="tests/unit/connectors/commit_protocol/test_contract_retry.py::"
    "test_a_sink_that_never_holds_still_ends_in_contention"
)
def test_a_table_that_never_stops_changing_ends_in_contention(rig: Any) -> None:
    """Another writer commits between our check and our commit, every time."""
    rig.produce(2)
    turns = iter(range(1000))

    def interfere() -> None:
        rig.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('turn' = '{next(turns)}')")

    with failpoints.on("before-publish", interfere), pytest.raises(Transient, match="contention"):
        rig.run()

    assert rig.values() == []
    rig.run()
    assert rig.values() == rig.expected()


def test_a_staged_batch_that_expiry_took_is_staged_again(rig: Any) -> None:
    rig.produce(3)
    rig.run()
    rig.produce(3)
    taken: list[int] = []

    def expire() -> None:
        if not taken:
            taken.append(1)
            rig.maintain()

    with failpoints.on("after-stage", expire):
        landed = rig.run()

    assert [each.seq for each in landed] == [2]
    assert rig.values() == rig.expected()


def _publish_staged(rig: Any) -> None:
    """As Iceberg does when the answer of the commit that stages is lost: its retry takes it for a rollback."""
    staged = f"SELECT snapshot_id FROM lake.{rig.table}.snapshots ORDER BY committed_at DESC LIMIT 1"
    [[snapshot]] = rig.spark.sql(staged).collect()
    rig.spark.sql(f"CALL lake.system.set_current_snapshot('{rig.table}', {snapshot})").collect()


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_that_iceberg_published_itself_gets_its_position(rig: Any, first: bool) -> None:
    rig.produce(3)
    if not first:
        rig.run()
        rig.produce(3)
    with failpoints.on("after-stage", lambda: _publish_staged(rig)):
        landed = rig.run()
    assert [(each.seq, each.already) for each in landed] == [(1 if first else 2, False)]
    assert rig.values() == rig.expected()
    rig.produce(3)
    rig.run()
    assert rig.values() == rig.expected()


def test_a_batch_that_cut_off_another_ones_rows_is_not_taken_for_published(rig: Any) -> None:
    rig.produce(3)
    rig.run()
    rig.produce(3)

    def cut_off() -> None:
        staged = f"SELECT snapshot_id FROM lake.{rig.table}.snapshots ORDER BY committed_at DESC LIMIT 1"
        [[snapshot]] = rig.spark.sql(staged).collect()
        rig.spark.sql(f"INSERT INTO lake.{rig.table} SELECT * FROM lake.{rig.table} LIMIT 1")
        rig.spark.sql(f"CALL lake.system.set_current_snapshot('{rig.table}', {snapshot})").collect()

    with failpoints.on("after-stage", cut_off), pytest.raises(Blocked) as caught:
        rig.run()
    assert caught.value.reason == "unstaged"


def test_the_session_stages_nothing_else(rig: Any) -> None:
    """What stages a batch is set on the batch's own session, around one write, and is unset whatever happens."""
    seen: list[str | None] = []
    rig.land = {"before_publish": lambda: seen.append(rig.spark.conf.get("spark.wap.id", None))}
    sessions: list[Any] = []
    rig.before_batch = lambda frame, batch: sessions.append(frame.sparkSession)
    rig.produce(2)
    rig.run()

    assert seen == [None]
    assert [each.conf.get("spark.wap.id", None) for each in sessions] == [None]
    assert all(each.conf.get(f"spark.sql.iceberg.snapshot-property.{jvm.ATTEMPT}", None) is None for each in sessions)
