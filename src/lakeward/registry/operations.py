"""Operations: what people asked of a stream, who carries it out now, and how it ended.

One at a time for a stream. The lease `operation` decides who: taking it is one statement, so two that ask in the same
instant cannot both get it. Whoever holds it renews it while working; when it lapses its holder is dead, and the next
one may take over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, exists, func, insert, select, update

from lakeward.platform.errors import Refused
from lakeward.platform.text import moment
from lakeward.registry import leases
from lakeward.registry.schema import leases as leases_table
from lakeward.registry.schema import operations

SCOPE = "operation"
ABANDONED = timedelta(seconds=120)
"""A holder that has not renewed for this long is dead."""

STARTS = ("start", "restart", "upgrade", "rollback", "recover", "reset", "skip-batch")
"""Operations by which a person wants a stream to run now, whatever failed before."""


@dataclass(frozen=True)
class Ticket:
    """The right to operate on a stream, as long as it is renewed. `abandoned`: what others left unfinished."""

    id: int
    stream: str
    token: str
    abandoned: tuple[dict[str, Any], ...] = ()


def begin(
    connection: Connection,
    stream: str,
    operation: str,
    *,
    author: str,
    holder: str,
    token: str,
    comment: str = "",
    approved_by: str | None = None,
    **params: Any,
) -> Ticket:
    """Take the stream for one operation and record that somebody asked.

    Raises:
        Refused: somebody else operates on it; names who, what and since when.
    """
    if leases.take(connection, SCOPE, stream, token, holder, ABANDONED) is None:
        raise _busy(connection, stream, operation)
    left = [item for item in newest(connection, stream) if item["result"] is None]
    for item in left:
        finish(connection, item["id"], "failed", "whoever carried it out died half way")
    asked = request(
        connection, stream, operation, author=author, comment=comment, approved_by=approved_by, holder=holder, **params
    )
    return Ticket(asked, stream, token, tuple(left))


def renew(connection: Connection, ticket: Ticket) -> bool:
    """Go on holding the stream; False when somebody took it over meanwhile."""
    return bool(leases.renew(connection, SCOPE, [ticket.stream], ticket.token, ABANDONED))


def end(connection: Connection, ticket: Ticket, result: str, detail: str) -> None:
    """Record how it ended and give the stream back."""
    finish(connection, ticket.id, result, detail)
    leases.release(connection, SCOPE, [ticket.stream], ticket.token)


def request(
    connection: Connection,
    stream: str,
    operation: str,
    *,
    author: str,
    comment: str = "",
    approved_by: str | None = None,
    **params: Any,
) -> int:
    """Record that somebody asked; returns the operation's id."""
    approval = {} if approved_by is None else {"approved_by": approved_by, "approved_at": func.now()}
    return int(
        connection.execute(
            insert(operations)
            .values(stream=stream, operation=operation, author=author, comment=comment, params=params, **approval)
            .returning(operations.c.id)
        ).scalar_one()
    )


def note(connection: Connection, operation_id: int, **params: Any) -> None:
    """Add to what is recorded of a running operation, e.g. `resume`: it stopped a stream that is to run again."""
    connection.execute(
        update(operations).where(operations.c.id == operation_id).values(params=operations.c.params.op("||")(params))
    )


def finish(connection: Connection, operation_id: int, result: str, detail: str) -> None:
    """Record how it ended: done | refused | failed | timed_out | skipped. The first end stands."""
    connection.execute(
        update(operations)
        .where(operations.c.id == operation_id, operations.c.result.is_(None))
        .values(result=result, detail=detail, finished_at=func.now())
    )


def newest(connection: Connection, stream: str, limit: int = 20) -> list[dict[str, Any]]:
    """The newest operations of a stream, newest first."""
    rows = connection.execute(
        select(operations)
        .where(operations.c.stream == stream)
        .order_by(operations.c.requested_at.desc(), operations.c.id.desc())
        .limit(limit)
    )
    return [dict(row._mapping) for row in rows]


def newest_starts(connection: Connection) -> dict[str, datetime]:
    """When a person last asked for a stream to run, by stream: that forgives back-off."""
    rows = connection.execute(
        select(operations.c.stream, func.max(operations.c.requested_at))
        .where(operations.c.operation.in_(STARTS), operations.c.result.is_distinct_from("refused"))
        .group_by(operations.c.stream)
    )
    return {row[0]: row[1] for row in rows}


def abandoned(connection: Connection) -> list[dict[str, Any]]:
    """Operations nobody finished and nobody works on any more: whoever carried them out was killed."""
    held = exists().where(
        leases_table.c.scope == SCOPE,
        leases_table.c.name == operations.c.stream,
        leases_table.c.until >= func.now(),
    )
    rows = connection.execute(
        select(operations)
        .where(operations.c.result.is_(None), operations.c.requested_at < func.now() - ABANDONED, ~held)
        .order_by(operations.c.id)
    )
    return [dict(row._mapping) for row in rows]


def _busy(connection: Connection, stream: str, operation: str) -> Refused:
    row = connection.execute(
        select(
            leases_table.c.holder,
            leases_table.c.since,
            func.extract("epoch", func.now() - leases_table.c.since).label("age_s"),
        ).where(leases_table.c.scope == SCOPE, leases_table.c.name == stream)
    ).one()
    running = next((item for item in newest(connection, stream) if item["result"] is None), None)
    what = f"{running['author']} asked to {running['operation']} it" if running else "another operation has it"
    return Refused(
        f"Stream {stream} is being operated on: {operation} must wait",
        why=f"{what}; {row.holder} is at it since {moment(row.since)} ({float(row.age_s):.0f} s)",
        next=f"lakeward streams events {stream}   shows how far it is; when its holder dies it can be taken over "
        f"{ABANDONED.total_seconds():.0f} s later",
        code="LW-6006",
    )
