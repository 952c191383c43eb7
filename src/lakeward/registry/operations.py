"""Operations: what people asked of a stream, and how it ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from lakeward.registry.schema import operations


def request(
    connection: Connection, stream: str, operation: str, *, author: str, comment: str = "", **params: Any
) -> int:
    """Record that somebody asked; returns the operation's id."""
    return int(
        connection.execute(
            insert(operations)
            .values(stream=stream, operation=operation, author=author, comment=comment, params=params)
            .returning(operations.c.id)
        ).scalar_one()
    )


def finish(connection: Connection, operation_id: int, result: str, detail: str) -> None:
    """Record how it ended: done | refused | failed | timed_out | skipped."""
    connection.execute(
        update(operations)
        .where(operations.c.id == operation_id)
        .values(result=result, detail=detail, finished_at=func.now())
    )


def newest(connection: Connection, stream: str, limit: int = 20) -> list[dict[str, Any]]:
    """The newest operations of a stream, newest first."""
    rows = connection.execute(
        select(operations).where(operations.c.stream == stream).order_by(operations.c.requested_at.desc()).limit(limit)
    )
    return [dict(row._mapping) for row in rows]


def newest_starts(connection: Connection) -> dict[str, datetime]:
    """When a person last asked for a stream to run (start, restart, recover), by stream: that forgives back-off."""
    rows = connection.execute(
        select(operations.c.stream, func.max(operations.c.requested_at))
        .where(operations.c.operation.in_(("start", "restart", "recover")))
        .group_by(operations.c.stream)
    )
    return {row[0]: row[1] for row in rows}


def unfinished(connection: Connection, operation: str, *, older_than_s: float) -> list[dict[str, Any]]:
    """Operations of one kind nobody finished, e.g. because the process that carried them out was killed."""
    rows = connection.execute(
        select(operations)
        .where(operations.c.operation == operation, operations.c.result.is_(None))
        .where(operations.c.requested_at < func.now() - timedelta(seconds=older_than_s))
    )
    return [dict(row._mapping) for row in rows]
