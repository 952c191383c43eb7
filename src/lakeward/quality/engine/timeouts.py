"""Timeouts of checks: a statement without an answer is interrupted, one that cannot be interrupted is given up.

A statement that runs shows its stages. One that shows none for long is still being planned, which no limit of Spark
ends: it is interrupted much earlier, and if that does not help, its session is closed: the client stops waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import structlog

from lakeward.platform import machine

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = structlog.get_logger(__name__)

PATIENCE_S = 900.0
"""For all checks that read the same rows; half of the timeout of a whole run."""
PLANNING_S = 20.0
"""A statement without a stage for so long is interrupted, later if the machine is starved (`checker.planning`). Plans
of a thousand columns take some ten seconds."""
GRACE_S = 10.0
"""An interrupted statement that does not end within this time is given up, with its session."""
DOWN_S = 10.0
"""A server that nothing listens for so long is not waited for by any further statement."""
_QUIET_S = 5.0
"""After so long without a sign of a statement, the server's address is tried."""
_AGAIN_S = 1.0
_INTERRUPTED = "OPERATION_CANCELED"


@dataclass
class Progress:
    """What the running statements of a session reported last.

    Attributes:
        last: monotonic time of the newest report; a statement that ends reports too.
    """

    last: float = field(default_factory=time.monotonic)
    _running: dict[str, bool] = field(default_factory=dict)

    def report(self, operation: str, running: bool, done: bool) -> None:
        """A report of a statement: whether it has stages that are not complete, and whether it ended."""
        self.last = time.monotonic()
        if done:
            self._running.pop(operation, None)
        else:
            self._running[operation] = running

    def touch(self) -> None:
        """Nothing is running."""
        self.last = time.monotonic()
        self._running.clear()

    def quiet_s(self, now: float) -> float:
        """Seconds without a sign that a statement runs; 0 while one has stages to run."""
        return 0.0 if any(self._running.values()) else now - self.last


class Watched(Protocol):
    """What is watched while checks wait for their statements."""

    progress: Progress

    def reachable(self) -> bool:
        """Whether something listens at the server's address."""

    def give_up(self) -> None:
        """Close the session, so that waiting statements fail now."""

    def hurry(self) -> None:
        """Let the session's statements fail at the first attempt."""


@dataclass
class Watch:
    """The decisions of a watcher, once a second. Pure, but for the calls it is given.

    Attributes:
        planning: whether a statement was interrupted because it was still planned.
        given_up: whether the session was closed.
        grace_s: how long an interrupted statement may take to end; longer on a busy machine.
    """

    began: float
    limit_s: float
    planning_s: float
    progress: Progress
    planning: bool = False
    given_up: bool = False
    over: bool = False
    grace_s: float = GRACE_S
    _interrupted: float | None = None
    _down: float | None = None

    def look(self, now: float, reachable: bool, interrupt: Callable[[], bool]) -> str:
        """What to do: `give up`, `hurry`, or nothing.

        Args:
            interrupt: interrupts the statements, and tells whether there was one.
        """
        if self.given_up:
            return ""
        if not reachable:
            self._down = now if self._down is None else self._down
            return "hurry" if now - self._down >= DOWN_S else ""
        self._down = None
        self.over = now - self.began >= self.limit_s
        stuck = self.progress.quiet_s(now) >= self.planning_s
        if not self.over and not stuck:
            self._interrupted = None
            return ""
        found = interrupt()
        if stuck and not self.over and not found:
            self.progress.touch()  # this process computes; it waits for nothing
            self._interrupted = None
            return ""
        self.planning = self.planning or (stuck and not self.over)
        self._interrupted = now if self._interrupted is None else self._interrupted
        if now - self._interrupted >= self.grace_s and self.progress.quiet_s(now) >= self.grace_s:
            self.given_up = True
            return "give up"
        return ""


@contextmanager
def patient(
    session: SparkSession, seconds: float, what: str, watched: Watched, planning_s: float = PLANNING_S
) -> Iterator[Watch]:
    """Interrupt this thread's statements on `session` after so many seconds, and every later one in this block.

    A statement that is planned for `planning_s` is interrupted too. An interrupted statement raises; `interrupted`
    recognizes it. Statements of other threads continue, unless one cannot be interrupted: then the session is closed.
    """
    tag, over = f"lakeward-{uuid4().hex}", Event()
    watched.progress.touch()
    state = Watch(time.monotonic(), seconds, planning_s, watched.progress)

    def interrupt() -> bool:
        try:
            return bool(session.interruptTag(tag))
        except Exception as error:  # noqa: BLE001 - no server answers: the waiting statement raises too
            log.warning("Interrupting statements failed", table=what, error=type(error).__name__)
            return True

    def watch() -> None:
        warned = False
        while not over.wait(_AGAIN_S if seconds > _AGAIN_S else seconds):
            now = time.monotonic()
            state.planning_s, state.grace_s = machine.patience(planning_s), machine.patience(GRACE_S)
            reachable = now - watched.progress.last < _QUIET_S or watched.reachable()
            act = state.look(now, reachable, interrupt)
            if not warned and (state.over or state.planning):
                warned = True
                limit = seconds if state.over else state.planning_s
                log.warning("Checks timed out; statements interrupted", table=what, timeout_s=limit)
            if act == "give up":
                log.warning("A statement cannot be interrupted; its session is closed", table=what)
                watched.give_up()
            elif act == "hurry":
                watched.hurry()

    session.addTag(tag)
    watcher = Thread(target=watch, daemon=True, name=f"patience-{what}")
    watcher.start()
    try:
        yield state
    finally:
        over.set()
        watcher.join()
        session.removeTag(tag)


def interrupted(error: Exception) -> bool:
    """Whether the error means that a statement was interrupted."""
    return _INTERRUPTED in str(error)
