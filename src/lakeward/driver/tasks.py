"""Starts and stops of queries, each in a thread of its own: one that hangs keeps no other stream waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["start", "stop", "interrupt"]


@dataclass
class Task:
    """One piece of work under way, or just over: then `result` or `error` says how.

    Attributes:
        subject: what the control loop wants to have back with the result.
        since: when it began (monotonic).
    """

    kind: Kind
    stream: str
    subject: Any
    since: float = field(default_factory=time.monotonic)
    result: Any = None
    error: Exception | None = None
    over: threading.Event = field(default_factory=threading.Event)
    told: bool = False


class Tasks:
    """At most one task a stream. Used by the control loop alone; only the work itself runs elsewhere.

    Args:
        thread: makes a thread of a function; pyspark has one that gives its JVM thread back.
    """

    def __init__(self, thread: Callable[[Callable[[], None]], threading.Thread] | None = None) -> None:
        self._thread = thread or (lambda work: threading.Thread(target=work))
        self._tasks: dict[str, Task] = {}

    @property
    def streams(self) -> frozenset[str]:
        """The streams something is being done about."""
        return frozenset(self._tasks)

    def begin(self, kind: Kind, stream: str, work: Callable[[], Any], subject: Any = None) -> None:
        """Do `work` beside everything else."""
        task = self._tasks[stream] = Task(kind, stream, subject)

        def run() -> None:
            try:
                task.result = work()
            except Exception as error:  # noqa: BLE001  # named boundary: the control loop asks for it
                task.error = error
            task.over.set()

        thread = self._thread(run)
        thread.daemon = True  # a start that hangs for ever must not keep the process from ending
        thread.start()

    def slow(self, kind: Kind, after_s: float) -> Iterator[Task]:
        """What has been under way for longer than that, each once."""
        limit = time.monotonic() - after_s
        for task in self._tasks.values():
            if task.kind == kind and task.since < limit and not task.told:
                task.told = True
                yield task

    def finished(self) -> Iterator[Task]:
        """What came to its end, each once."""
        for stream, task in list(self._tasks.items()):
            if task.over.is_set():
                del self._tasks[stream]
                yield task
