"""Checkers: which of them live, by a lease each. What they work on stands with the runs (`check_runs`)."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func

from lakeward.registry import leases
from lakeward.registry.schema import leases as table

SCOPE = "checker"
TTL = timedelta(seconds=15)


def live(connection: Connection, owner: str, place: str) -> None:
    """A sign of life of a checker that serves a place."""
    leases.take(connection, SCOPE, owner, owner, place, TTL)


def gone(connection: Connection, owner: str) -> None:
    """A checker ends; those of its kind that died without a word are forgotten, too."""
    connection.execute(delete(table).where(table.c.scope == SCOPE, table.c.until < func.now()))
    leases.release(connection, SCOPE, [owner], owner)


def alive(connection: Connection, place: str, since: datetime | None = None) -> bool:
    """Whether a checker of this place gives signs of life; with `since`: also after that time."""
    return any(
        each.live and each.holder == place and (since is None or each.until - TTL >= since)
        for each in leases.current(connection, SCOPE).values()
    )
