"""The lease of a table for one maintenance run, in database time, renewed by a heartbeat."""

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
from lakeward.platform.text import word
from lakeward.registry import leases

log = structlog.get_logger(__name__)

SCOPE = "table"
TTL = timedelta(seconds=60)
BEATS = 6  # renewals within one ttl

Transaction = Callable[[], AbstractContextManager[Connection]]


def me() -> str:
    """The holder of a lease, as shown to people."""
    return f"{socket.gethostname()} pid {os.getpid()}"


@dataclass
class TableLease:
    """The holder of a table's lease.

    Attributes:
        lost: set when the lease is lost: stop acting.
    """

    table: str
    token: str
    scope: str = SCOPE
    lost: threading.Event = field(default_factory=threading.Event)
    _on_loss: list[Callable[[], None]] = field(default_factory=list)

    def when_lost(self, act: Callable[[], None]) -> None:
        """Call `act` (from the heartbeat's thread) when the lease is lost."""
        self._on_loss.append(act)

    def check(self) -> None:
        """Stop if the lease was lost.

        Raises:
            Refused: the lease was lost meanwhile.
        """
        if self.lost.is_set():
            raise Refused(
                f"Maintenance of {self.table} lost the lease of the table",
                why="The registry did not answer for longer than the lease lasts, or another run took over.",
                next=f"lakeward tables plan {word(self.table)}",
                code="LW-4007",
            )


@contextmanager
def hold_lease(
    transaction: Transaction, table: str, holder: str | None = None, ttl: timedelta = TTL, scope: str = SCOPE
) -> Iterator[TableLease]:
    """Hold the table's lease for the block; `scope` is for another lease with the table's name.

    Raises:
        Refused: another run holds the lease; names it.
    """
    lease = TableLease(table, uuid4().hex, scope)
    with transaction() as connection:
        taken = leases.take(connection, scope, table, lease.token, holder or me(), ttl)
        held = None if taken else leases.current(connection, scope, [table]).get(table)
    if taken is None:
        raise Refused(
            f"Another run maintains {table} already",
            why=f"{held.holder} has the lease until {held.until:%H:%M:%S} UTC, unless renewed."
            if held
            else "Another process has the lease.",
            next=f"lakeward tables maintain {word(table)}   when it has ended",
            code="LW-4006",
        )
    done = threading.Event()
    beat = threading.Thread(target=_beat, args=(transaction, lease, ttl, done), name=f"lease of {table}", daemon=True)
    beat.start()
    try:
        yield lease
    finally:
        done.set()
        beat.join()
        try:
            with transaction() as connection:
                leases.release(connection, scope, [table], lease.token)
        except DependencyDown:
            log.warning("Table lease not released; it expires", table=table)


def _beat(transaction: Transaction, mine: TableLease, ttl: timedelta, done: threading.Event) -> None:
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
        log.error("Table lease lost; stopping", table=mine.table)
        for act in mine._on_loss:
            try:
                act()
            except Exception as error:  # noqa: BLE001  the other callbacks must run too
                log.warning("Stopping a statement failed", table=mine.table, error=str(error).splitlines()[0])
        return
