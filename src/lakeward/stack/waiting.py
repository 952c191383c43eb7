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

TRIES = 3  # starts after which a part is considered failed
POLL_S = 0.5


def wait(part: Part, supervisor: Supervisor, since: datetime, cancelled: threading.Event, leader: Process) -> None:
    """Wait until `part` is healthy, with evidence newer than `since`.

    Args:
        leader: the process of the supervisor, whose session the part belongs to.

    Raises:
        Unhealthy: the part died repeatedly or was not healthy in time, with the last lines of its log; or another
            process listens on its port.
        LakewardError: the wait was cancelled.
    """
    deadline = time.monotonic() + part.patience_s
    starts: set[datetime] = set()
    while not part.healthy(since):
        if cancelled.is_set():
            raise LakewardError(
                f"The start of {part.name} was aborted",
                why="another part did not start",
                next="lakeward stack up",
                code="LW-7026",
            )
        observed = supervisor.observe().get(part.name)
        if observed is not None and observed.state in {"BACKOFF", "STARTING", "RUNNING", "EXITED"}:
            starts.add(observed.started)
        if len(starts) > TRIES or (observed is not None and observed.state == "FATAL"):
            raise failure(part, f"it ended {TRIES} times while starting")
        if time.monotonic() > deadline:
            raise failure(part, f"it was not healthy within {part.patience_s:.0f} s")
        cancelled.wait(POLL_S)
    if part.listens is not None:
        port = part.site.ports[part.listens]
        other = session.foreign_listener(port, leader)
        if other is not None:
            raise Unhealthy(
                f"Another process uses the port of {part.name}",
                why=f"process {other.pid} has taken {ports.HOST}:{port} in the meantime",
                next="lakeward stack down, then lakeward stack up   chooses another port",
                code="LW-7027",
            )


def failure(part: Part, why: str) -> Unhealthy:
    """The error of a part that does not start, with the last lines of its log."""
    return Unhealthy(
        f"{part.name} does not start",
        why=f"{why}; the last lines of {part.log}:\n        {tail(part.log)}",
        next="lakeward stack up   starts what is missing once this is repaired; lakeward stack down   stops the rest",
        code="LW-7025",
    )
