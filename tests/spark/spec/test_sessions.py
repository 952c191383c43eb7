"""Why a condition on a session's bounds is refused: Spark asks it of each record, before sessions are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_gives_a_session_that_never_was(spark: SparkSession) -> None:
    rows = [("10:00",), ("11:00",), ("20:00",)]
    times = spark.createDataFrame(rows, "t STRING").selectExpr("to_timestamp('2013-01-01 ' || t) AS t")
    times.createOrReplaceTempView("records")
    statement = "SELECT hour(session_window.end) AS ends, count(*) FROM records GROUP BY session_window(t, '2 hours')"
    before = "TIMESTAMP '2013-01-01 12:30:00'"
    assert sorted(map(tuple, spark.sql(statement).collect())) == [(13, 2), (22, 1)]
    assert spark.sql(f"{statement} HAVING session_window.end < {before}").collect() == [(12, 1)]
    assert spark.sql(f"{statement} HAVING max(t) + INTERVAL 2 HOURS < {before}").collect() == []
