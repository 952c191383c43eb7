"""Checkers: which checker processes are alive, by a lease for each. Their work is recorded in `check_runs`."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func

from lakeward.registry import leases
from lakeward.registry.schema import leases as table

SCOPE = "checker"
TTL = timedelta(seconds=15)


def record_heartbeat(connection: Connection, owner: str, place: str) -> None:
    """Record a heartbeat of a checker that serves a place."""
    leases.take(connection, SCOPE, owner, owner, place, TTL)


def record_exit(connection: Connection, owner: str) -> None:
    """Record that a checker ends; expired leases of dead checkers are removed, too."""
    connection.execute(delete(table).where(table.c.scope == SCOPE, table.c.until < func.now()))
    leases.release(connection, SCOPE, [owner], owner)


def alive(connection: Connection, place: str, since: datetime | None = None) -> bool:
    """Whether a checker of this place has a live heartbeat; with `since`: a heartbeat after that time."""
    return any(
        lease.live and lease.holder == place and (since is None or lease.until - TTL >= since)
        for lease in leases.current(connection, SCOPE).values()
    )
