"""Health wait: wait until a part is healthy, and report why if it is not."""

from __future__ import annotations

import threading
import time
from datetime import datetime

from lakeward.platform import ports
from lakeward.platform.errors import LakewardError, Unhealthy
from lakeward.stack import session
from lakeward.stack.part import Part
from lakeward.stack.state import Process
from lakeward.stack.supervisor import Supervisor, tail

TRIES = 3  # a part that died this often while starting will not make it
POLL_S = 0.5


def wait(part: Part, supervisor: Supervisor, since: datetime, cancelled: threading.Event, leader: Process) -> None:
    """Return when `part` is healthy by a sign newer than `since`.

    Args:
        leader: the supervisor's process, whose session the part is of.

    Raises:
        Unhealthy: it died again and again, or was not well in time; with its log and last lines. Or another process
            answers in its place.
        LakewardError: somebody cancelled the wait.
    """
    deadline = time.monotonic() + part.patience_s
    starts: set[datetime] = set()
    while not part.healthy(since):
        if cancelled.is_set():
            raise LakewardError(f"{part.name}: the start was aborted", code="LW-7026")
        seen = supervisor.observe().get(part.name)
        if seen is not None and seen.state in {"BACKOFF", "STARTING", "RUNNING", "EXITED"}:
            starts.add(seen.started)
        if len(starts) > TRIES or (seen is not None and seen.state == "FATAL"):
            raise failure(part, f"it ended {TRIES} times while starting")
        if time.monotonic() > deadline:
            raise failure(part, f"it was not well within {part.patience_s:.0f} s")
        cancelled.wait(POLL_S)
    if part.listens is not None:
        port = part.site.ports[part.listens]
        other = session.stranger(port, leader)
        if other is not None:
            raise Unhealthy(
                f"Another process uses the port of {part.name}",
                why=f"process {other.pid} has taken {ports.HOST}:{port} in the meantime",
                next="lakeward stack down, then lakeward stack up   chooses another port",
                code="LW-7027",
            )


def failure(part: Part, why: str) -> Unhealthy:
    """The error of a part that does not start: its log and last lines."""
    return Unhealthy(
        f"{part.name} does not start",
        why=f"{why}; the last lines of {part.log}:\n        {tail(part.log)}",
        next="lakeward stack up   starts what is missing once this is repaired; lakeward stack down   stops the rest",
        code="LW-7025",
    )
