"""A running stream: state of its query, stop, and the reason of a failure."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.driver.failing import Offsets
from lakeward.engine import jvm_errors
from lakeward.engine.assignment import Assignment
from lakeward.engine.batch import BatchFunction
from lakeward.engine.checkpoint import files as checkpoint
from lakeward.engine.checkpoint import state_errors
from lakeward.engine.checkpoint.files import Files
from lakeward.engine.gate import Draining, Gate, wait_until
from lakeward.engine.references import References

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery

_log = structlog.get_logger(__name__)

_NEWEST_JOBS = 5
COMMIT_LOG_S = 10.0
"""Spark writes its commit log right after a batch; a stop waits this long for it."""


@dataclass
class Running:
    """One start of one stream."""

    assignment: Assignment
    query: StreamingQuery
    function: BatchFunction
    gate: Gate
    references: References
    finding: str
    session: SparkSession
    listener: StreamingQueryListener
    files: Files
    notes: tuple[str, ...] = ()
    """Notes for people about this start, e.g. options that the checkpoint has frozen."""
    at: dict[str, str] = field(default_factory=dict)
    """Source name -> landed position at the start."""
    started: float = field(default_factory=time.monotonic)

    @property
    def stream(self) -> str:
        return self.assignment.stream

    @property
    def exact(self) -> bool:
        return bool(self.function.sink.exact)

    @property
    def active(self) -> bool:
        """Whether the query still runs."""
        return bool(self.query.isActive)

    @property
    def completed(self) -> bool:
        """Whether the query has landed all records available at its start, and ended for that reason."""
        return self._ends and not self.active and not self.gate.closed and self.failure() is None

    @property
    def _ends(self) -> bool:
        """Whether the query ends by itself without a failure."""
        return self.assignment.spec.trigger.kind == "available_now"

    @property
    def _stop_requested(self) -> bool:
        """Whether it was asked to end other than by its gate."""
        return False

    def unfinished_batch(self, files: Files) -> tuple[int | None, Offsets | None]:
        """The unfinished batch and its offsets, from the batch itself or else from the checkpoint.

        Args:
            files: reads the checkpoint; must not need the JVM if that is dead.
        """
        failed = self.function.failed_batch
        if failed is not None:
            return failed.batch, {name: {"start": failed.start[name], "end": end} for name, end in failed.end.items()}
        with suppress(Exception):  # unreadable files must not hide the failure
            sources = [source.name for source in self.function.flow.sources]
            found = checkpoint.unfinished(files, self.assignment.checkpoint, sources)
            if found is not None:
                return found
        return self.gate.inside, None

    def tasks(self) -> object:
        """Progress of Spark's jobs of the running batch; only for comparison."""
        tracker = self.session.sparkContext.statusTracker()
        jobs = sorted(tracker.getJobIdsForGroup(str(self.query.runId)))
        done = 0
        for job in jobs[-_NEWEST_JOBS:]:
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                found = tracker.getStageInfo(stage)
                done += found.numCompletedTasks if found is not None else 0
        return (jobs[-1:], len(jobs), done)

    def interrupt(self) -> bool:
        """Stop at once, also Python code; False if the query still runs."""
        self.gate.close()
        self.function.interrupt()
        self._end()
        return not self.active

    def drain(self) -> None:
        """Let no further batch begin. Returns at once."""
        self.gate.close()

    def drained(self) -> bool:
        """Whether no batch runs and Spark has recorded the last one: a stop now replays nothing."""
        if not self.gate.wait_empty(0):
            return False
        newest = self.gate.newest
        if newest is None or not self.active:
            return True
        last = self.query.lastProgress
        return last is not None and last["batchId"] >= newest

    def stop(self, timeout_s: float) -> bool:
        """Stop at a batch boundary; returns whether it was one.

        The running batch gets `timeout_s` to finish; then it is interrupted and runs again after the next start.
        """
        self.gate.close()
        clean = self.gate.wait_empty(timeout_s)
        if clean:
            clean = wait_until(self.drained, COMMIT_LOG_S)
        self._end()
        return clean

    def kill(self) -> None:
        """Stop at once."""
        self.gate.close()
        self._end()

    def _end(self) -> None:
        try:
            self._halt()
        except Exception as error:  # noqa: BLE001  # the query is over either way; the error is logged
            _log.warning("query did not stop cleanly", stream=self.stream, error=str(error).splitlines()[0])
        self.release()

    def _halt(self) -> None:
        self.query.stop()

    def release(self) -> None:
        """Release the resources of a query that has ended."""
        try:
            self.session.streams.removeListener(self.listener)
            self.references.release()
        except Exception as error:  # noqa: BLE001  # a dying JVM has nothing to release
            _log.debug("release failed", stream=self.stream, error=str(error))

    def failure(self) -> tuple[BaseException, str] | None:
        """The failure of a query that ended by itself: exception and text for its class; None if it did not.

        A batch refused by a closed gate is not a failure, nor is one interrupted by a stop: Spark then has no
        exception, while Python got an interrupted call into the JVM.
        """
        if self.active:
            return None
        raised = self.function.failure
        if isinstance(raised, Draining):
            return None
        failed = _throwable(self.query)
        text = jvm_errors.of_throwable(failed)
        wrong = state_errors.of(self.assignment, failed)
        if wrong is not None:
            return wrong, text
        if not text and (self.gate.closed or (raised is None and (self._ends or self._stop_requested))):
            return None
        if raised is not None:
            # Of an error that PySpark did not convert, the query's own exception only says that Python raised one.
            return raised, jvm_errors.of_error(raised) if hasattr(raised, "java_exception") else text
        return RuntimeError(text.splitlines()[0] if text else "the query ended without a reason"), text


def _throwable(query: Any) -> Any:
    """The exception that ended the query; None if there is none."""
    option = query._jsq.exception()
    return option.get().cause() if option.isDefined() else None
