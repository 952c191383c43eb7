"""Counting a batch: exact, in one job, and the session stands afterwards as it stood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeward.connectors.commit_protocol.row_count import tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADAPTIVE = "spark.sql.adaptive.enabled"


def test_rows_and_values_are_counted_in_one_job(spark: SparkSession) -> None:
    kept = spark.sql("SELECT id, if(id % 4 = 0, 'bad', null) reason FROM range(10)").repartition(2).persist()
    try:
        kept.collect()
        spark.sparkContext.setJobGroup("tally", "counts")
        assert tally(kept, "reason") == (10, 3)
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("tally")) == 1
    finally:
        spark.sparkContext.setJobGroup("", "")
        kept.unpersist()
    assert tally(kept.where("id < 0"), "reason") == (0, 0)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_the_session_plans_other_queries_as_before(spark: SparkSession, adaptive: str) -> None:
    from pyspark.errors import AnalysisException

    before = spark.conf.get(ADAPTIVE)
    spark.conf.set(ADAPTIVE, adaptive)
    try:
        tally(spark.range(3).toDF("id"))
        assert spark.conf.get(ADAPTIVE) == adaptive
        with pytest.raises(AnalysisException):
            tally(spark.range(3).toDF("id"), "missing")
        assert spark.conf.get(ADAPTIVE) == adaptive
    finally:
        spark.conf.set(ADAPTIVE, before)
