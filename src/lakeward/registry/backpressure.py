"""Back-pressure: maintenance records which tables are behind, and their streams commit less often.

It is stored as a lease without a holder: `tables_observe` renews it with each run, a completed rewrite removes it, and
it expires if no pass renews it. A stream is never paused for a maintenance that does not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from sqlalchemy import Connection

from lakeward.registry import leases

SCOPE = "pressure"
TTL = timedelta(minutes=15)
"""Longer than the schedule of `tables_observe`, which renews it also while no table changes."""
RELEASED_TTL = timedelta(minutes=5)
"""For this long after a pause a stream without a batch does not count as stalled."""


class Level(StrEnum):
    """What the streams of a table do, from none to the strongest measure; `released`: they were paused until now."""

    OK = "ok"
    RELEASED = "released"
    WARN = "warn"
    LENGTHEN = "lengthen"
    HOLD = "hold"


@dataclass(frozen=True)
class TableBackpressure:
    """A table whose streams are slowed down (`lengthen`), paused (`hold`), or were paused (`released`)."""

    level: Level
    why: str


def set_level(connection: Connection, table: str, level: Level, why: str) -> None:
    """Set the level of a table, which its drivers read. A level without a measure removes the earlier one."""
    before = current(connection).get(table)
    leases.forget(connection, SCOPE, table)
    if level in (Level.LENGTHEN, Level.HOLD):
        leases.take(connection, SCOPE, table, str(level), why, TTL)
    elif before is not None and before.level is Level.HOLD:
        leases.take(connection, SCOPE, table, str(Level.RELEASED), before.why, RELEASED_TTL)


def current(connection: Connection) -> dict[str, TableBackpressure]:
    """Table -> its current back-pressure."""
    levels = leases.current(connection, SCOPE)
    return {table: TableBackpressure(Level(lease.token), lease.holder) for table, lease in levels.items() if lease.live}
