"""Core-seconds of a query, from the account that Spark keeps of its jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakeward.driver.core_time import CoreTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLEPT_S = 0.2


@pytest.fixture
def job(spark: SparkSession) -> Iterator[Any]:
    """Runs a job of two tasks, each of which takes a fifth of a second, in a group."""
    context = spark.sparkContext

    def run(group: str) -> None:
        context.setJobGroup(group, "a batch")
        context.parallelize(range(2), 2).foreach(lambda _: time.sleep(SLEPT_S))  # a sleeping task holds its core

    yield run
    context.setLocalProperty("spark.jobGroup.id", None)
    context.setLocalProperty("spark.job.description", None)


def test_the_time_of_all_tasks_counts_once_and_by_query(spark: SparkSession, job: Any) -> None:
    spent = CoreTime(spark.sparkContext)
    assert spent.since_last("core-time-1") == 0
    job("core-time-1")
    job("core-time-2")
    _until(spent, "core-time-1", 2 * SLEPT_S)
    assert spent.since_last("core-time-1") == 0, "counted once"
    assert spent.since_last("core-time-3") == 0, "the jobs of other queries are not its own"
    job("core-time-1")
    job("core-time-1")
    _until(spent, "core-time-1", 4 * SLEPT_S)
    assert CoreTime(spark.sparkContext).since_last("core-time-1") >= 6 * SLEPT_S, "all jobs that Spark remembers"


def test_an_account_that_cannot_be_read_is_unknown() -> None:
    assert CoreTime(cast(Any, object())).since_last("run") is None, "as of an application that ended"


def _until(spent: CoreTime, group: str, least: float) -> None:
    """Spark's listener learns of the end of a job a moment after its caller."""
    found, end = 0.0, time.monotonic() + 60
    while found < least:
        assert time.monotonic() < end, found
        found += spent.since_last(group) or 0.0
        time.sleep(0.02)
