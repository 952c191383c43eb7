"""Core-seconds of a query, from the account that Spark keeps of its jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING, Any

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
        context.parallelize(range(2), 2).foreach(lambda _: time.sleep(SLEPT_S))

    yield run
    context.setLocalProperty("spark.jobGroup.id", None)
    context.setLocalProperty("spark.job.description", None)


def test_the_time_of_all_tasks_counts_once_and_by_query(spark: SparkSession, job: Any) -> None:
    spent = CoreTime(spark.sparkContext)
    assert spent.since_last("core-time-1") == 0
    job("core-time-1")
    job("core-time-2")
    first = _ended(spent, "core-time-1")
    assert first >= 2 * SLEPT_S
    job("core-time-1")
    job("core-time-1")
    spark.range(3).collect()
    assert _ended(spent, "core-time-1") >= 2 * SLEPT_S
    assert _ended(CoreTime(spark.sparkContext), "core-time-1") >= 6 * SLEPT_S, "all jobs that Spark remembers"


def test_an_account_that_cannot_be_read_is_unknown() -> None:
    spent = CoreTime(context=object())  # type: ignore[arg-type]  # as one whose JVM ended
    assert spent.since_last("run") is None


def _ended(spent: CoreTime, group: str) -> float:
    """Spark's listener learns of the end of a job a moment after its caller."""
    Event().wait(0.5)
    found = spent.since_last(group)
    assert found is not None
    return found
