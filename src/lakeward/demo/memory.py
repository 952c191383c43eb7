"""Memory of the demo: the sampled proportional set size of the stack and of the drivers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType

import psutil

EVERY_S = 3.0


def tree_pss_bytes(pids: Iterable[int]) -> int:
    """PSS of processes and all their descendants, each counted once; unreadable processes count 0."""
    sizes: dict[int, int] = {}
    for pid in pids:
        with suppress(psutil.Error):
            root = psutil.Process(pid)
            for process in [root, *root.children(recursive=True)]:
                if process.pid not in sizes:
                    with suppress(psutil.Error, AttributeError):
                        facts = process.memory_full_info()
                        sizes[process.pid] = getattr(facts, "pss", facts.uss)
    return sum(sizes.values())


class Peak:
    """Samples a figure in a thread and remembers the largest."""

    def __init__(self, sample: Callable[[], int], every_s: float = EVERY_S) -> None:
        self.bytes = 0
        """The largest sample so far."""
        self._sample = sample
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(psutil.Error, OSError):  # a process that ends while it is measured
                self.bytes = max(self.bytes, self._sample())
            self._stop.wait(self._every_s)
