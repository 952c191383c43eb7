"""Changes: the audit log of who did what and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from lakeward.registry.schema import changes


@dataclass(frozen=True)
class Change:
    """One entry of the audit log. `detail`: what the change records beside author and comment, by its kind."""

    id: int
    at: datetime
    scope: str
    name: str
    change: str
    author: str
    comment: str
    detail: Mapping[str, object]


def record(
    connection: Connection, scope: str, name: str, change: str, *, author: str, comment: str = "", **detail: object
) -> None:
    """Add one entry to the audit log."""
    connection.execute(
        insert(changes).values(scope=scope, name=name, change=change, author=author, comment=comment, detail=detail)
    )


def newest_of_all(connection: Connection, limit: int) -> list[Change]:
    """The newest changes of everything, newest first."""
    rows = connection.execute(select(changes).order_by(changes.c.id.desc()).limit(limit))
    return [Change(**row._mapping) for row in rows]


def newest(connection: Connection, scope: str, name: str, limit: int = 50) -> list[Change]:
    """The newest changes of (scope, name), newest first."""
    rows = connection.execute(
        select(changes)
        .where(changes.c.scope == scope, changes.c.name == name)
        .order_by(changes.c.id.desc())
        .limit(limit)
    )
    return [Change(**row._mapping) for row in rows]
