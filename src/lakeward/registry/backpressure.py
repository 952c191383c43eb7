"""Back-pressure: maintenance tells the drivers which tables are behind, and their streams commit less often.

A lease that nobody holds: `tables_observe` says it again with each look, a rewrite that landed takes it back, and where
nobody looks any more it lapses. A stream never stands still for a maintenance that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from sqlalchemy import Connection

from lakeward.registry import leases

SCOPE = "pressure"
TTL = timedelta(minutes=15)
"""Three looks of `tables_observe`."""
RELEASED_TTL = timedelta(minutes=5)
"""So long a stream that was held counts as one that goes on again, before its silence is held against it."""


class Level(StrEnum):
    """What is to become of the streams of a table, from nothing to the most; `released`: they were held until now."""

    OK = "ok"
    RELEASED = "released"
    WARN = "warn"
    LENGTHEN = "lengthen"
    HOLD = "hold"


@dataclass(frozen=True)
class Pressed:
    """A table whose streams are slowed down, `lengthen` or `hold`, or were held: `released`."""

    level: Level
    why: str


def say(connection: Connection, table: str, level: Level, why: str) -> None:
    """Tell the drivers of a table; a level that slows nobody down takes back what was said before."""
    before = current(connection).get(table)
    leases.forget(connection, SCOPE, table)
    if level in (Level.LENGTHEN, Level.HOLD):
        leases.take(connection, SCOPE, table, str(level), why, TTL)
    elif before is not None and before.level is Level.HOLD:
        leases.take(connection, SCOPE, table, str(Level.RELEASED), before.why, RELEASED_TTL)


def current(connection: Connection) -> dict[str, Pressed]:
    """Table -> what its streams are to do now."""
    found = leases.current(connection, SCOPE)
    return {table: Pressed(Level(each.token), each.holder) for table, each in found.items() if each.live}
