"""A long-lived client that is made again: after failures in a row, or after it was not used for a while.

Some clients never find their server again after an outage, and a connection that a firewall dropped answers nothing.
Waiting does not help them; a new client does. The failure is raised either way: who calls decides about a retry.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")
FAILURES: Final = 2
"""Failures in a row after which a client is replaced: one may be the server's."""
SILENCE_S: Final = 600.0
"""A client that was not used for this long is replaced before its next use."""


class Renewed(Generic[T]):
    """One client of one server; safe to use from several threads.

    Args:
        name: of the client, in the log.
        make: makes a client.
        close: ends one; it may hang, and its errors are ignored. Nothing to do by default.
        failures: failures in a row after which the client is replaced.
        silence_s: seconds without use after which it is replaced.
        counts: whether an error is a failure of the client; an answer of the server, e.g. a refusal, is none.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], T],
        close: Callable[[T], object] = lambda _: None,
        *,
        failures: int = FAILURES,
        silence_s: float = SILENCE_S,
        counts: Callable[[Exception], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._make, self._close = name, make, close
        self._most, self._silence_s, self._counts, self._clock = failures, silence_s, counts, clock
        self._lock = threading.Lock()
        self._client: T | None = None
        self._failed, self._used = 0, 0.0

    def use(self, act: Callable[[T], R]) -> R:
        """What `act` returns for the client.

        Raises:
            Exception: as `act` or `make`; counted.
        """
        client = self.current()
        try:
            result = act(client)
        except Exception as error:
            if self._counts(error):
                self.failed(client)
            raise
        self.worked(client)
        return result

    def current(self) -> T:
        """The client to use now."""
        with self._lock:
            if self._client is not None and self._clock() - self._used > self._silence_s:
                self._drop("was not used for long")
            if self._client is None:
                self._client = self._make()
            self._used = self._clock()
            return self._client

    def failed(self, client: T) -> None:
        """Count a failure of this client; the next use makes another after `failures` in a row."""
        with self._lock:
            if client is not self._client:
                return  # another thread has replaced it
            self._failed += 1
            if self._failed >= self._most:
                self._drop(f"failed {self._failed} times in a row")

    def worked(self, client: T) -> None:
        """The client answered."""
        with self._lock:
            if client is self._client:
                self._failed = 0

    def end(self) -> None:
        """End the client; the next use makes another."""
        with self._lock:
            if self._client is not None:
                self._drop("")

    def _drop(self, why: str) -> None:
        old, self._client, self._failed = self._client, None, 0
        if why:
            log.warning("client renewed", client=self._name, why=why)
        if old is not None:
            # In a thread of its own: the end of a client whose server is silent may wait for that server.
            ending = threading.Thread(target=self._ended, args=(old,), name=f"end of {self._name}", daemon=True)
            ending.start()

    def _ended(self, old: T) -> None:
        try:
            self._close(old)
        except Exception as error:  # noqa: BLE001  # named boundary: the old client is given up whatever it says
            log.debug("old client not closed", client=self._name, error=str(error))
