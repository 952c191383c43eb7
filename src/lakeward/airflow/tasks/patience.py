"""Limit of a task by waiting, not by the clock: a pass is ended when it hangs, not when the machine gives it no CPU.

Airflow's `execution_timeout` counts wall time. On a starved machine it kills every pass while it works, the next pass
begins with the same imports and is killed too, and nothing is supervised for as long as the load lasts. Here a task has
a limit for the time it has waited for others (a socket, a lock, a child) since its last step. Time on the CPU and time
in the queue for a CPU do not count; Linux counts both for each thread in `/proc/thread-self/schedstat`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from lakeward.platform.errors import TimedOut

LOOK_S = 5.0
WITHOUT_COUNT_S = 900.0
"""The limit where the system does not say how long a thread queued for a CPU: of wall time without a step."""
_COUNTS = Path("/proc/thread-self/schedstat")


def worked_s() -> float | None:
    """Seconds that this thread had a CPU or queued for one; None if the system does not say."""
    try:
        on_cpu, queued, *_ = _COUNTS.read_text().split()
        return (int(on_cpu) + int(queued)) / 1e9
    except (OSError, ValueError):
        return None


class Patience:
    """The waiting time of one thread since its last step."""

    def __init__(
        self,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float | None] = worked_s,
    ) -> None:
        self._limit_s, self._clock, self._worked = limit_s, clock, worked
        self.step()

    def step(self) -> None:
        """A step was made: the waiting time begins again."""
        self._at, self._before = self._clock(), self._worked()

    @property
    def waited_s(self) -> float:
        """Seconds in which the thread waited for others since its last step; wall time if that is not known."""
        now = self._worked()
        busy = 0.0 if now is None or self._before is None else now - self._before
        return max(0.0, self._clock() - self._at - busy)

    @property
    def over(self) -> bool:
        """Whether the limit is exceeded."""
        return self.waited_s > (self._limit_s if self._before is not None else max(self._limit_s, WITHOUT_COUNT_S))


@contextmanager
def limit(what: str, waiting_s: float, look_s: float = LOOK_S) -> Iterator[Patience]:
    """Run a block, and end it when it waits for longer than `waiting_s` in one step; `step()` begins the next one.

    Only the main thread can be interrupted; in another one the block runs without a limit.

    Raises:
        TimedOut: it waited for too long.
    """
    patience = Patience(waiting_s)
    if threading.current_thread() is not threading.main_thread():
        yield patience
        return

    def look(_number: int, _frame: FrameType | None) -> None:
        if patience.over:
            raise TimedOut(
                f"{what} was ended",
                why=f"it waited for {patience.waited_s:.0f} s in one step; the limit is {waiting_s:.0f} s of waiting",
                next="lakeward doctor",
                code="LW-6336",
            )

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, look_s, look_s)
    try:
        yield patience
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
