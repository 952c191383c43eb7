"""Core-seconds of a stream's batches: how long the tasks of its jobs occupied a core, by Spark's own account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import structlog

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = structlog.get_logger(__name__)

_ENDED = frozenset({"SUCCEEDED", "FAILED"})


class CoreTime:
    """Adds up the run times of tasks, Python functions included. Failed attempts of a stage count: they cost cores.

    Spark keeps only the newest jobs and stages (`spark.ui.retainedJobs`): what it forgot before a call is missing.

    Args:
        context: the application of the driver.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._after = -1
        self._running: set[int] = set()

    def since_last(self, run: str) -> float | None:
        """Core-seconds of the jobs of a query's run that ended since the last call; None if Spark does not tell."""
        try:
            return round(sum(self._of_job(job) for job in self._ended_jobs(run)) / 1000, 3)
        except Exception as error:  # noqa: BLE001  # named boundary: a figure that is missing must not stop a stream
            _log.info("core-seconds not read", run=run, error=type(error).__name__)
            return None

    def _ended_jobs(self, run: str) -> Iterator[int]:
        tracker, jvm = self._context.statusTracker()._jtracker, cast(Any, self._context._jvm)
        listed = jvm.java.util.Arrays.toString(tracker.getJobIdsForGroup(run))  # one call, not one for each id
        jobs = {int(text) for text in listed.strip("[]").split(",") if text.strip()}
        for job in sorted(self._running & jobs | {job for job in jobs if job > self._after}):
            self._after = max(self._after, job)
            if self._store.job(job).status().toString() in _ENDED:
                self._running.discard(job)
                yield job
            else:
                self._running.add(job)
        self._running &= jobs

    def _of_job(self, job: int) -> int:
        """Milliseconds of the tasks of a job."""
        stages = self._store.job(job).stageIds().mkString(",")
        return sum(self._of_stage(int(stage)) for stage in stages.split(",") if stage)

    def _of_stage(self, stage: int) -> int:
        newest = self._store.lastStageAttempt(stage)
        before = (self._attempt(stage, attempt) for attempt in range(newest.attemptId()))
        taken: int = newest.executorRunTime() + sum(each.executorRunTime() for each in before)
        return taken

    def _attempt(self, stage: int, attempt: int) -> Any:
        jvm: Any = self._context._jvm
        none = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Double.TYPE, 0)
        return self._store.stageAttempt(stage, attempt, False, jvm.java.util.ArrayList(), False, none)._1()

    @property
    def _store(self) -> Any:
        return self._context._jsc.sc().statusStore()
