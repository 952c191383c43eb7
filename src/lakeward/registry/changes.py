"""Changes: the audit log of who did what and why."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select

from lakeward.registry.schema import changes


def record(
    connection: Connection, scope: str, name: str, change: str, *, author: str, comment: str = "", **detail: Any
) -> None:
    """Add one entry to the audit log."""
    connection.execute(
        insert(changes).values(scope=scope, name=name, change=change, author=author, comment=comment, detail=detail)
    )


def newest(connection: Connection, scope: str, name: str, limit: int = 50) -> list[dict[str, Any]]:
    """The newest changes of (scope, name), newest first."""
    rows = connection.execute(
        select(changes)
        .where(changes.c.scope == scope, changes.c.name == name)
        .order_by(changes.c.id.desc())
        .limit(limit)
    )
    return [dict(row._mapping) for row in rows]
