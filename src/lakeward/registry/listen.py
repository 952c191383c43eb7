"""PostgreSQL LISTEN: wait for a notification of the registry without polling."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Collection
from pathlib import Path
from time import sleep
from typing import Any, Self

import psycopg2
import psycopg2.sql
from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT
from sqlalchemy.exc import SQLAlchemyError

from lakeward.registry.engine import engine

_RETRY_S = 1.0
"""Pause after a failed LISTEN."""


class Notifications:
    """The notifications of one channel, on their own connection. One may be lost: the caller must also poll rarely."""

    def __init__(self, url: str, pgpass: Path | None, channel: str) -> None:
        self._url, self._pgpass, self._channel = url, pgpass, channel
        self._link: Any = None
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
                sleep(min(seconds, _RETRY_S))
            return False
        ready, _, _ = select.select([self._link, *also], [], [], seconds)
        if self._link not in ready:
            return False
        try:
            self._link.poll()
        except psycopg2.Error:
            self.close()
            return False
        notified = bool(self._link.notifies)
        self._link.notifies.clear()
        return notified

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
        self._link = link
        return True
