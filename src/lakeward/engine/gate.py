"""The gate between batches: a graceful stop ends a query only while none of its batches runs.

Spark's own `stop()` interrupts the running batch. So a stop first closes the gate: the running batch finishes and is
recorded, the next one is refused at its beginning (it has done nothing yet and runs again after the restart), and then
the query is stopped.

A gate can also pause, or space batches out: the next batch then waits before it, with the query alive, while
maintenance rewrites the table or until maintenance has caught up.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Draining(Exception):
    """Raised to refuse a batch at its beginning, because the stream is being stopped. Not a failure."""


class Gate:
    """The gate of one start of a query."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside: int | None = None
        self._since = 0.0
        self._paused_until = 0.0
        self._spaced: tuple[float, float] = (0.0, 0.0)
        self.waits = False
        """Whether a batch waits for a dependency or at the gate: such a batch does not hang."""
        self.inside_last: int | None = None
        """The newest batch that passed the gate."""
        self.newest: int | None = None
        """The newest batch that ended without an error."""

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def inside(self) -> int | None:
        """The running batch; None between batches."""
        return self._inside

    @property
    def running_s(self) -> float | None:
        """How long the running batch has been running; None between batches."""
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
        """Let no further batch in for this long; 0 ends the pause. It ends by itself, also if its caller has died."""
        with self._changed:
            self._paused_until = time.monotonic() + seconds if seconds > 0 else 0.0
            self._changed.notify_all()

    def space(self, seconds: float, valid_s: float = 0.0) -> None:
        """Let batches begin at least this far apart (`math.inf`: none begins). It ends by itself after `valid_s`."""
        with self._changed:
            self._spaced = (seconds, time.monotonic() + valid_s)
            self._changed.notify_all()

    @property
    def paused(self) -> bool:
        """Whether the gate pauses and no batch runs."""
        with self._changed:
            return self._inside is None and self._paused_until > time.monotonic()

    def _turn_at(self) -> float:
        """When the next batch may begin (monotonic)."""
        seconds, valid_until = self._spaced
        begun = self._since if self.inside_last is not None else -math.inf
        spaced = math.inf if math.isinf(seconds) else begun + seconds
        return max(self._paused_until, min(spaced, valid_until))

    def _await_turn(self) -> None:
        try:
            while not self._closed and (remaining := self._turn_at() - time.monotonic()) > 0:
                self.waits = True
                self._changed.wait(remaining)
        finally:
            self.waits = False

    def close(self) -> None:
        """Let no further batch in. Returns at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait_empty(self, timeout_s: float | None) -> bool:
        """Wait until no batch runs; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self._inside is None, timeout_s)

    def pause(self, seconds: float) -> None:
        """Wait inside a batch, e.g. for a dependency.

        Raises:
            Draining: the gate was closed, so the batch must not wait any longer.
        """
        with self._changed:
            self.waits = True
            try:
                if self._changed.wait_for(lambda: self._closed, seconds):
                    raise Draining("the stream is being stopped while its batch waits")
            finally:
                self.waits = False


def wait_until(done: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Poll until `done`; False after the timeout."""
    end = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True
