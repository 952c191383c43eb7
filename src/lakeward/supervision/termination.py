"""What a dead driver left behind: how it ended, its last words, and the batch it may have died of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.platform.failures import Cause, FailureClass, Judgement, exit_words, judge
from lakeward.registry.drivers import Driver
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Job
from lakeward.telemetry.mask import mask

REBOOTED = "the machine was started anew"
_TAIL_BYTES = 4000
_MUTTERED = ("WARNING:", "OpenJDK 64-Bit Server VM warning:", "Picked up JAVA_TOOL_OPTIONS:")
_TELLING = re.compile(r"OutOfMemoryError|No space left on device|Disk quota exceeded")
_WORDLESS = (None, Cause.KILLED, Cause.JVM)


@dataclass(frozen=True)
class Death:
    """The end of one launch.

    Attributes:
        code: exit code, None when nobody could wait for the process.
        error: its own words, empty when it left none.
        judgement: class and cause.
        stream, batch_id, offsets: what it died of, when it could say so.
    """

    code: int | None
    error: str
    judgement: Judgement
    stream: str | None = None
    batch_id: int | None = None
    offsets: Mapping[str, Any] | None = None

    def words(self, driver: str, *, known: bool, reason: str) -> str:
        """The end in one sentence; `known`: a process was recorded, else `reason` says all there is."""
        if not known:
            return f"Driver {driver}: {reason}{self._tail()}"
        return f"Driver {driver} {exit_words(self.code, self.judgement.cause)}{self._tail()}"

    def _tail(self) -> str:
        line = self.error.strip().splitlines()[:1]
        return f": {line[0]}" if line else ""


def of(row: Driver, job: Job | None) -> Death:
    """Read what is left of a launch."""
    left = dict(job.exit) if job is not None and job.exit is not None else {}
    if row.exit_code is None and not left and row.handle and identity.rebooted(row.handle):
        return Death(None, REBOOTED, judge(text=REBOOTED))
    code = row.exit_code if row.exit_code is not None else left.get("exit_code")
    error = mask(str(row.error or left.get("error") or last_words(job) or ""))
    found = judge(text=error, exit_code=code)
    if found.cause in _WORDLESS and (told := _telling(job)):
        # A JVM says on its way out that it has no memory; the process around it only sees it gone.
        error, found = told, judge(text=told, exit_code=code)
    if left.get("failure_class") and found.cause in _WORDLESS:
        found = Judgement(FailureClass(left["failure_class"]), found.cause)
    return Death(code, error, found, left.get("stream"), left.get("batch_id"), left.get("offsets"))


def last_words(job: Job | None) -> str:
    """The last line a driver printed that left no `exit.json`, e.g. an import error."""
    # What every JVM mutters at its start explains no death.
    spoken = (line for line in reversed(_printed(job)) if line and not line.startswith(_MUTTERED))
    return next(spoken, "")[:500]


def _telling(job: Job | None) -> str:
    return next((mask(line)[:500] for line in reversed(_printed(job)) if _TELLING.search(line)), "")


def _printed(job: Job | None) -> list[str]:
    if job is None or not job.log:
        return []
    try:
        with (Path(job.log) / "stdout.log").open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            return [line.strip() for line in stream.read().decode(errors="replace").strip().splitlines()]
    except OSError:
        return []
