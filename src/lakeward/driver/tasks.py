"""Starts and stops of queries, each in a separate thread: one that hangs does not delay other streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["start", "stop", "interrupt"]


@dataclass
class Task:
    """One running or finished piece of work; when finished, `result` or `error` is set.

    Attributes:
        subject: returned to the control loop with the result.
        since: when it began (monotonic).
        reported: whether it was reported as slow.
    """

    kind: Kind
    stream: str
    subject: Any
    since: float = field(default_factory=time.monotonic)
    result: Any = None
    error: Exception | None = None
    over: threading.Event = field(default_factory=threading.Event)
    reported: bool = False


class Tasks:
    """At most one task per stream. Used only by the control loop; the work runs in other threads.

    Args:
        thread: makes a thread of a function; pyspark has one that gives its JVM thread back.
    """

    def __init__(self, thread: Callable[[Callable[[], None]], threading.Thread] | None = None) -> None:
        self._thread = thread or (lambda work: threading.Thread(target=work))
        self._tasks: dict[str, Task] = {}

    @property
    def streams(self) -> frozenset[str]:
        """The streams with a task."""
        return frozenset(self._tasks)

    def begin(self, kind: Kind, stream: str, work: Callable[[], Any], subject: Any = None) -> None:
        """Run `work` in a separate thread."""
        task = self._tasks[stream] = Task(kind, stream, subject)

        def run() -> None:
            try:
                task.result = work()
            except Exception as error:  # noqa: BLE001  # named boundary: the control loop handles it
                task.error = error
            task.over.set()

        thread = self._thread(run)
        thread.daemon = True  # a hanging start must not prevent the end of the process
        thread.start()

    def slow(self, kind: Kind, after_s: float) -> Iterator[Task]:
        """Tasks that have been running for longer than `after_s`, each reported once."""
        limit = time.monotonic() - after_s
        for task in self._tasks.values():
            if task.kind == kind and task.since < limit and not task.reported:
                task.reported = True
                yield task

    def finished(self) -> Iterator[Task]:
        """Finished tasks, each once."""
        for stream, task in list(self._tasks.items()):
            if task.over.is_set():
                del self._tasks[stream]
                yield task
