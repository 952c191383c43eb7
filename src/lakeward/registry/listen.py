"""PostgreSQL LISTEN: wait for a notification of the registry without polling."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, Self

import psycopg2
import psycopg2.sql
from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT
from sqlalchemy.exc import SQLAlchemyError

from lakeward.platform import machine
from lakeward.platform.deadline import shut_after
from lakeward.registry.engine import engine

_RETRY_S = 1.0
"""Pause after a failed LISTEN."""
PROBE_S: Final = 30.0
"""After how long without a word the server is probed on this connection. A connection that a firewall forgot, or whose
server process is stopped, says nothing: that looks like a quiet channel."""
ANSWER_S: Final = 5.0
"""How long it may take to answer; longer on a starved machine. Giving a connection up too early costs only another."""


class Notifications:
    """The notifications of one channel, on their own connection. One may be lost: the caller must also poll rarely.

    Args:
        url: of the registry.
        pgpass: the password file.
        channel: to listen to.
        probe_s: after how long without a word the server is probed.
        answer_s: how long it may take to answer; then the next wait opens another connection.
    """

    def __init__(
        self, url: str, pgpass: Path | None, channel: str, probe_s: float = PROBE_S, answer_s: float = ANSWER_S
    ) -> None:
        self._url, self._pgpass, self._channel = url, pgpass, channel
        self._probe_s, self._answer_s = probe_s, answer_s
        self._link: Any = None
        self._heard = 0.0
        self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def wait(self, seconds: float, also: Collection[int] = ()) -> bool:
        """Return at a notification, when one of the files `also` is readable, or after `seconds`.

        Returns whether a notification came. If the registry is down, this only waits: the caller's next query raises
        the error.
        """
        if self._link is None and not self._listen():
            ready, _, _ = select.select([*also], [], [], min(seconds, _RETRY_S)) if also else ([], [], [])
            if not ready and not also:
                time.sleep(min(seconds, _RETRY_S))
            return False
        if time.monotonic() - self._heard >= self._probe_s:
            return self._received(self._probe)
        ready, _, _ = select.select([self._link, *also], [], [], seconds)
        return self._link in ready and self._received(self._link.poll)

    def _received(self, read: Callable[[], object]) -> bool:
        """Read from the connection, which is given up if that fails. Returns whether a notification came."""
        try:
            read()
        except psycopg2.Error:
            self.close()
            return False
        self._heard = time.monotonic()
        notified = bool(self._link.notifies)
        self._link.notifies.clear()
        return notified

    def _probe(self) -> None:
        with shut_after(self._link.fileno(), machine.patience(self._answer_s)), self._link.cursor() as cursor:
            cursor.execute("SELECT 1")

    def close(self) -> None:
        """End the connection."""
        if self._link is not None:
            with contextlib.suppress(psycopg2.Error):
                self._link.close()
            self._link = None

    def _listen(self) -> bool:
        try:
            pooled = engine(self._url, self._pgpass).raw_connection()
            link: Any = pooled.driver_connection
            pooled.detach()  # the pool does not own it any more
            link.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
            with link.cursor() as cursor:
                cursor.execute(psycopg2.sql.SQL("LISTEN {}").format(psycopg2.sql.Identifier(self._channel)))
        except (psycopg2.Error, SQLAlchemyError):
            return False
        self._link, self._heard = link, time.monotonic()
        return True
