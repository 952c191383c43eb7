"""Rows in quarantine: every microsecond is in the text, and rows that differ in one are two."""

from __future__ import annotations

from typing import Any

from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.kafka import sink
from lakeward.connectors.row_json import row_json
from lakeward.engine import rows
from lakeward.spec.model.sinks import KafkaSink

TIMES = ["2026-03-01T05:00:00", "2026-03-01T05:00:00.5", "2026-03-01T05:00:00.500001", "2026-03-01T05:00:00.500002"]


def frame(spark: Any) -> Any:
    """A row for each time, in every kind of column that has one."""
    given = spark.createDataFrame([(time,) for time in TIMES], "t STRING").coalesce(1)
    return given.selectExpr(
        "CAST(concat(t, 'Z') AS TIMESTAMP) AS at",
        "named_struct('a.b', array(CAST(t AS TIMESTAMP_NTZ))) AS local",
        "CAST(NULL AS STRING) AS no",
    )


def test_a_row_has_microseconds_where_it_needs_them_and_else_the_text_of_before(spark: Any) -> None:
    given = frame(spark)
    found = [row[0] for row in given.select(row_json(given, given.columns)).collect()]
    fractions = [".000", ".500", ".500001", ".500002"]
    day = "2026-03-01T05:00:00"
    assert found == [f'{{"at":"{day}{each}Z","local":{{"a.b":["{day}{each}"]}}}}' for each in fractions]


def test_rejected_groups_that_differ_in_a_microsecond_are_two_in_quarantine(spark: Any) -> None:
    """A row without a source position is known by its content; an equal one is taken for the same and not inserted."""
    judged = frame(spark).selectExpr("*", f"'rule' AS {rows.REASON}")
    found = rows.broken(judged, {"rule": "false"}, "source", ["_kafka_topic", "_kafka_partition", "_kafka_offset"])
    taken = found.select("_kafka_offset", quarantine.ROW).collect()
    assert len({row[0] for row in taken}) == len(TIMES)
    assert [".500002" in row[1] for row in taken] == [False, False, False, True]


def test_a_record_in_a_topic_has_every_microsecond(spark: Any) -> None:
    given = frame(spark).select("at")
    found = sink.shape(given, KafkaSink.model_validate({"topic": "t"})).select("value").collect()
    assert [row[0].split(".")[1][:-2] for row in found] == ["000Z", "500Z", "500001Z", "500002Z"]
