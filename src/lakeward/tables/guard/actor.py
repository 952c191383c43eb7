"""One maintenance actor a table: a lease in database time, renewed by a heartbeat, lost to whoever takes over."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from uuid import uuid4

import structlog
from sqlalchemy import Connection

from lakeward.platform.errors import DependencyDown, Refused
from lakeward.registry import leases

log = structlog.get_logger(__name__)

SCOPE = "table"
TTL = timedelta(seconds=60)
BEATS = 6  # renewals within one ttl

Transaction = Callable[[], AbstractContextManager[Connection]]


def me() -> str:
    """Who holds a lease, as people read it."""
    return f"{socket.gethostname()} pid {os.getpid()}"


@dataclass
class Actor:
    """The holder of a table's lease.

    Attributes:
        lost: set when the lease is gone: stop acting.
    """

    table: str
    token: str
    scope: str = SCOPE
    lost: threading.Event = field(default_factory=threading.Event)
    _on_loss: list[Callable[[], None]] = field(default_factory=list)

    def when_lost(self, act: Callable[[], None]) -> None:
        """Do `act` (from the heartbeat's thread) when the lease is lost."""
        self._on_loss.append(act)

    def check(self) -> None:
        """Raises:
        Refused: the lease was lost meanwhile.
        """
        if self.lost.is_set():
            raise Refused(
                f"Maintenance of {self.table} lost its lease",
                why="the registry was out of reach longer than the lease lasts, or somebody took over",
                next=f"lakeward tables plan {self.table}",
                code="LW-4007",
            )


@contextmanager
def actor(
    transaction: Transaction, table: str, holder: str | None = None, ttl: timedelta = TTL, scope: str = SCOPE
) -> Iterator[Actor]:
    """Hold the table's lease for the length of the block; `scope` for another lease that is named by the table.

    Raises:
        Refused: somebody else maintains the table; names them.
    """
    mine = Actor(table, uuid4().hex, scope)
    with transaction() as connection:
        taken = leases.take(connection, scope, table, mine.token, holder or me(), ttl)
        held = None if taken else leases.current(connection, scope, [table]).get(table)
    if taken is None:
        raise Refused(
            f"{table} is being maintained already",
            why=f"by {held.holder}, until {held.until:%H:%M:%S} UTC unless renewed" if held else "by somebody else",
            next=f"lakeward tables plan {table}   when it is done",
            code="LW-4006",
        )
    done = threading.Event()
    beat = threading.Thread(target=_beat, args=(transaction, mine, ttl, done), name=f"lease of {table}", daemon=True)
    beat.start()
    try:
        yield mine
    finally:
        done.set()
        beat.join()
        try:
            with transaction() as connection:
                leases.release(connection, scope, [table], mine.token)
        except DependencyDown:
            log.warning("The lease of a table could not be given back; it ends by itself", table=table)


def _beat(transaction: Transaction, mine: Actor, ttl: timedelta, done: threading.Event) -> None:
    renewed = monotonic()
    while not done.wait(ttl.total_seconds() / BEATS):
        try:
            with transaction() as connection:
                held = leases.renew(connection, mine.scope, [mine.table], mine.token, ttl)
            if held:
                renewed = monotonic()
                continue
        except DependencyDown:
            if monotonic() - renewed < ttl.total_seconds():
                continue
        mine.lost.set()
        log.error("The lease of a table is lost: stopping", table=mine.table)
        for act in mine._on_loss:
            try:
                act()
            except Exception as error:  # noqa: BLE001  the other things to stop must be stopped too
                log.warning("Could not stop a statement", table=mine.table, error=str(error).splitlines()[0])
        return
