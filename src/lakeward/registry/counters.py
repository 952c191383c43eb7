"""Counters: a check run tells the drivers by which checks of a table its rows are counted while they land.

A lease that nobody holds: every run says it again, and where no run comes any more it lapses. Streams count by what
they were told last while the registry is away.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection

from lakeward.registry import leases
from lakeward.registry.leases import Lease

SCOPE = "counters"
TTL = timedelta(days=2)
"""A table that lands is checked within minutes; one whose suite is gone is not counted for longer than this."""


def say(connection: Connection, table: str, digest: str, text: str) -> None:
    """Tell the drivers of a table.

    Args:
        digest: another one when the text is another.
        text: what they count by; they read it.
    """
    leases.forget(connection, SCOPE, table)
    leases.take(connection, SCOPE, table, digest, text, TTL)


def said(connection: Connection, tables: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Table -> digest and text of what was told last."""
    found: dict[str, Lease] = leases.current(connection, SCOPE, tables) if tables else {}
    return {table: (each.token, each.holder) for table, each in found.items() if each.live}
