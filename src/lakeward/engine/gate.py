"""The gate between batches: a query is stopped only while none of its batches is under way.

Spark's own `stop()` interrupts the running batch. So a stop first closes the gate: the batch that runs finishes and is
recorded, the next one is turned away at its beginning (it has done nothing yet and runs again after the restart), and
only then is the query stopped.

A gate may also rest, and space batches out: the next one waits before it with the query alive, while maintenance
rewrites the table, or until it has caught up.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Draining(Exception):
    """Turns a batch away at its beginning: the stream is being stopped. Not a failure."""


class Gate:
    """One for each start of a query."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside: int | None = None
        self._since = 0.0
        self._rests_until = 0.0
        self._spaced: tuple[float, float] = (0.0, 0.0)
        self.waits = False
        """Whether a batch waits for a dependency, or for its turn at the gate: it is not stuck."""
        self.inside_last: int | None = None
        """The newest batch that was let in."""
        self.newest: int | None = None
        """The newest batch that came out without an error."""

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def inside(self) -> int | None:
        """The batch that runs, None between batches."""
        return self._inside

    @property
    def running_s(self) -> float | None:
        """For how long the batch inside has been running; None if there is none."""
        with self._changed:
            return None if self._inside is None else time.monotonic() - self._since

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """Hold the gate while a batch runs.

        Raises:
            Draining: the gate is closed.
        """
        with self._changed:
            self._await_turn()
            if self._closed:
                raise Draining(f"batch {number} waits for the next start of the stream")
            self._inside, self._since = number, time.monotonic()
            self.inside_last = number
        try:
            yield
            self.newest = number
        finally:
            with self._changed:
                self._inside = None
                self._changed.notify_all()

    def pause_for(self, seconds: float) -> None:
        """Let no further batch in for so long; 0 ends it. It ends by itself: nobody has to come back for it."""
        with self._changed:
            self._rests_until = time.monotonic() + seconds if seconds > 0 else 0.0
            self._changed.notify_all()

    def space(self, seconds: float, valid_s: float = 0.0) -> None:
        """Let batches begin no closer together than this, `math.inf`: none. It ends by itself after `valid_s`."""
        with self._changed:
            self._spaced = (seconds, time.monotonic() + valid_s)
            self._changed.notify_all()

    @property
    def paused(self) -> bool:
        """Whether it rests and no batch is inside."""
        with self._changed:
            return self._inside is None and self._rests_until > time.monotonic()

    def _turn_at(self) -> float:
        """When the next batch may begin (monotonic)."""
        seconds, valid_until = self._spaced
        begun = self._since if self.inside_last is not None else -math.inf
        spaced = math.inf if math.isinf(seconds) else begun + seconds
        return max(self._rests_until, min(spaced, valid_until))

    def _await_turn(self) -> None:
        try:
            while not self._closed and (left := self._turn_at() - time.monotonic()) > 0:
                self.waits = True
                self._changed.wait(left)
        finally:
            self.waits = False

    def close(self) -> None:
        """Let no further batch in. Returns at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait_empty(self, timeout_s: float | None) -> bool:
        """Wait until no batch is inside; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self._inside is None, timeout_s)

    def pause(self, seconds: float) -> None:
        """Wait inside a batch, e.g. for a dependency; ends early when the gate is closed.

        Raises:
            Draining: the gate was closed: the batch should not wait on.
        """
        with self._changed:
            self.waits = True
            try:
                if self._changed.wait_for(lambda: self._closed, seconds):
                    raise Draining("the stream is being stopped while its batch waits")
            finally:
                self.waits = False


def wait_until(done: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Poll until `done`; False when that took too long."""
    end = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True
