"""Driver termination: exit code, last error and failed batch of a dead driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakeward.platform.failures import Cause, FailureClass, Judgement, exit_words, judge
from lakeward.registry.drivers import Driver
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import ExitRecord, Job
from lakeward.telemetry.mask import mask

REBOOTED = "the machine was rebooted"
_TAIL_BYTES = 4000
_NOISE = ("WARNING:", "OpenJDK 64-Bit Server VM warning:", "Picked up JAVA_TOOL_OPTIONS:")
_FATAL = re.compile(r"OutOfMemoryError|No space left on device|Disk quota exceeded")
_UNEXPLAINED = (None, Cause.KILLED, Cause.JVM)


@dataclass(frozen=True)
class Death:
    """The end of one launch.

    Attributes:
        code: exit code, None if it is not known.
        error: its own error text, empty without one.
        judgement: class and cause.
        stream, batch_id, offsets: the failed batch, if the driver recorded it.
    """

    code: int | None
    error: str
    judgement: Judgement
    stream: str | None = None
    batch_id: int | None = None
    offsets: Mapping[str, object] | None = None

    def words(self, driver: str, *, known: bool, reason: str) -> str:
        """The end in one sentence. `known`: a process was recorded; if not, `reason` is all that is known."""
        if not known:
            return f"Driver {driver}: {reason}{self._tail()}"
        return f"Driver {driver} {exit_words(self.code, self.judgement.cause)}{self._tail()}"

    def _tail(self) -> str:
        line = self.error.strip().splitlines()[:1]
        return f": {line[0]}" if line else ""


def of(row: Driver, job: Job | None) -> Death:
    """Read the end of a launch from its registry row, its `exit.json` and its output."""
    record: ExitRecord = job.exit if job is not None and job.exit is not None else {}
    if row.exit_code is None and not record and row.handle and identity.rebooted(row.handle):
        return Death(None, REBOOTED, judge(text=REBOOTED))
    code = row.exit_code if row.exit_code is not None else record.get("exit_code")
    error = mask(str(row.error or record.get("error") or last_words(job) or ""))
    judgement = judge(text=error, exit_code=code)
    if judgement.cause in _UNEXPLAINED and (fatal := _fatal_line(job)):
        # A JVM prints an OutOfMemoryError before it exits; the Python process around it only sees that it has ended.
        error, judgement = fatal, judge(text=fatal, exit_code=code)
    if (recorded := record.get("failure_class")) and judgement.cause in _UNEXPLAINED:
        judgement = Judgement(FailureClass(recorded), judgement.cause)
    return Death(code, error, judgement, record.get("stream"), record.get("batch_id"), record.get("offsets"))


def last_words(job: Job | None) -> str:
    """The last line printed by a driver without `exit.json`, e.g. an import error."""
    # Warnings that every JVM prints at its start explain no failure.
    candidates = (line for line in reversed(_printed(job)) if line and not line.startswith(_NOISE))
    return next(candidates, "")[:500]


def _fatal_line(job: Job | None) -> str:
    return next((mask(line)[:500] for line in reversed(_printed(job)) if _FATAL.search(line)), "")


def _printed(job: Job | None) -> list[str]:
    if job is not None and job.printed is not None:
        return [line.strip() for line in job.printed.strip().splitlines()]
    if job is None or not job.log:
        return []
    try:
        with (Path(job.log) / "stdout.log").open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            return [line.strip() for line in stream.read().decode(errors="replace").strip().splitlines()]
    except OSError:
        return []
