"""Bad rows are put aside once, however often their batch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.iceberg import quarantine
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BAD = "CAST(value AS INT) % 5 = 0"


@pytest.fixture
def sorting(rig: Any) -> Any:
    """The rig with its bad rows going to a quarantine table."""
    from pyspark.sql import functions as F

    name = f"{rig.table}_quarantine"
    assert quarantine.create(rig.spark, name)
    rig.quarantine = name

    def run_sorted(sink: Any) -> Any:
        inner = sink.land

        def land(frame: DataFrame, batch: int, **_: Any) -> Any:
            counted = Counted(*tally(frame, F.when(F.expr(BAD), 1)))
            bad = frame.where(BAD).selectExpr(
                "'source' source", "_kafka_topic", "_kafka_partition", "_kafka_offset", "'rule' reason",
                "CAST(value AS BINARY) raw", "'divisible by five' error", "current_timestamp() _ingested_at",
            )  # fmt: skip
            aside = (lambda: quarantine.insert(bad, name, rig.stream)) if counted.quarantined else None
            return inner(frame.where(f"NOT ({BAD})"), batch, counted=counted, before_publish=aside)

        sink.land = land
        return sink

    make = rig.sink
    rig.sink = lambda query: run_sorted(make(query))
    return rig


def _aside(rig: Any) -> list[int]:
    rows = rig.spark.table(f"lake.{rig.quarantine}").selectExpr("CAST(CAST(raw AS STRING) AS INT) value").collect()
    return sorted(row.value for row in rows)


def test_bad_rows_are_set_aside_with_their_position_and_counted(sorting: Any) -> None:
    sorting.produce(10)

    sorting.run()

    assert _aside(sorting) == [0, 5]
    assert sorting.values() == [1, 2, 3, 4, 6, 7, 8, 9]
    row = sorting.spark.table(f"lake.{sorting.quarantine}").where("CAST(raw AS STRING) = '5'").first()
    assert (row.stream, row.source, row._kafka_topic, row._kafka_partition) == ("flights", "source", sorting.topic, 1)
    assert (row.reason, row.error, row._kafka_offset) == ("rule", "divisible by five", 2)
    assert row._ingested_at is not None and row._kinesis_shard is None
    assert sorting.position().totals.model_dump() == {
        "consumed": 10,
        "landed": 8,
        "quarantined": 2,
        "filtered": 0,
        "skipped": 0,
    }


@pytest.mark.parametrize(
    "step",
    [
        "after-quarantine",
        pytest.param("after-publish", marks=pytest.mark.campaign(held_by="test_a_replay_puts_its_bad_rows_aside_once")),
    ],
)
def test_a_replay_puts_its_bad_rows_aside_once(sorting: Any, step: str) -> None:
    sorting.produce(10)

    def die() -> None:
        raise SystemError("died here")

    with failpoints.on(step, die), pytest.raises(Exception, match="died here"):
        sorting.run()
    assert _aside(sorting) == [0, 5]
    sorting.run()

    assert _aside(sorting) == [0, 5]
    assert sorting.values() == [1, 2, 3, 4, 6, 7, 8, 9]
    assert sorting.position().totals.quarantined == 2


def test_a_batch_without_bad_rows_leaves_the_quarantine_alone(sorting: Any) -> None:
    from lakeward.connectors.iceberg import jvm

    sorting.produced = 1
    sorting.produce(4)
    sorting.run()

    assert jvm.metadata_of(jvm.load(sorting.spark, sorting.quarantine)).currentSnapshot() is None


def test_later_batches_are_added_and_other_streams_have_their_own_rows(sorting: Any) -> None:
    sorting.produce(10)
    sorting.run()
    sorting.produce(10)
    sorting.run()
    assert _aside(sorting) == [0, 5, 10, 15]

    known = sorting.spark.table(f"lake.{sorting.quarantine}").drop("stream")
    for _ in range(2):
        quarantine.insert(known.where("CAST(raw AS STRING) = '5'"), sorting.quarantine, "other")

    assert _aside(sorting) == [0, 5, 5, 10, 15]


@pytest.mark.campaign(held_by="test_a_replay_puts_its_bad_rows_aside_once")
def test_quarantine_is_not_staged(sorting: Any) -> None:
    """The WAP id is unset for it: put aside is visible even if the batch is never published."""
    sorting.produce(10)

    def die() -> None:
        raise SystemError("died here")

    with failpoints.on("after-quarantine", die), pytest.raises(Exception, match="died here"):
        sorting.run()

    assert sorting.values() == []
    assert _aside(sorting) == [0, 5]


def test_a_table_of_an_earlier_version_is_given_the_columns_it_lacks(spark: Any, namespace: str) -> None:
    old = ", ".join(f"{name} {kind}" for name, kind in list(quarantine.COLUMNS.items())[:-8])
    spark.sql(f"CREATE TABLE lake.{namespace}.q ({old}) USING iceberg")
    spark.sql(f"INSERT INTO lake.{namespace}.q (stream, reason, _kafka_offset) VALUES ('s', 'decode', 7)")
    spark.table(f"lake.{namespace}.q").count()

    assert not quarantine.create(spark, f"{namespace}.q")

    assert spark.table(f"lake.{namespace}.q").columns == list(quarantine.COLUMNS)
    rows = spark.range(7, 9).selectExpr("'source' source", "'t' _kafka_topic", "id _kafka_offset", "X'00' raw")
    quarantine.insert(rows, f"{namespace}.q", "s", generation=4)
    quarantine.insert(rows, f"{namespace}.q", "s", generation=5)
    found = spark.sql(f"SELECT _kafka_offset, generation FROM lake.{namespace}.q ORDER BY ALL").collect()
    assert [tuple(row) for row in found] == [(7, None), (7, 4), (8, 4)], "each once, and the old row is as it was"
