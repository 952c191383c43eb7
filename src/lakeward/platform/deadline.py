"""Ends a wait on a socket whose peer says nothing: after a time the socket is shut down, and the wait fails.

Keepalive of TCP notices a host that is down. It does not notice a server process that is stopped or hangs: its kernel
goes on to acknowledge. A client library without a limit of its own would then wait for ever.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

KEEPALIVE: Final[dict[str, int]] = {
    # A host that vanished without closing the connection is detected within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq for TCP keepalive."""
_LOOK_S: Final = 1.0
_IDLE_LOOKS: Final = 60
"""Looks without a wait after which the watching thread ends; the next wait starts another."""


@dataclass(eq=False)
class Wait:
    """One wait. `over`: whether its time ran out, so that the socket was shut down."""

    link: socket.socket
    until: float
    over: bool = False


class _Watch:
    """The waits of this process and the thread that ends those whose time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: set[Wait] = set()
        self._thread: threading.Thread | None = None

    def add(self, wait: Wait) -> None:
        with self._lock:
            self._waits.add(wait)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()

    def remove(self, wait: Wait) -> None:
        with self._lock:
            self._waits.discard(wait)

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                idle = 0 if self._waits else idle + 1
                if idle >= _IDLE_LOOKS:
                    self._thread = None
                    return
                for wait in self._waits:
                    if not wait.over and time.monotonic() >= wait.until:
                        wait.over = True
                        with suppress(OSError):
                            wait.link.shutdown(socket.SHUT_RDWR)


_watch = _Watch()


def _forked() -> None:
    global _watch  # the thread, and perhaps a lock that it held, stayed in the parent
    _watch = _Watch()


os.register_at_fork(after_in_child=_forked)


@contextmanager
def shut_after(file: int, seconds: float) -> Iterator[Wait]:
    """Shut the socket `file` down if the block is not over after `seconds`; what waits for it in the block then fails.

    Args:
        file: the file descriptor of a connected socket.
        seconds: rounded up to a look each second.
    """
    # A copy of the descriptor: a library that closes its own in the block cannot make this shut another's.
    with socket.socket(fileno=os.dup(file)) as link:
        wait = Wait(link, time.monotonic() + seconds)
        watch = _watch
        watch.add(wait)
        try:
            yield wait
        finally:
            watch.remove(wait)
