"""Operations: requests for a stream, who executes them, and their results.

One at a time for a stream. The lease `operation` decides: taking it is one statement, so that two simultaneous requests
cannot both get it. The holder renews it while working; when it expires, the holder is dead, and another process may
take over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, exists, func, insert, select, update

from lakeward.platform.errors import Refused
from lakeward.platform.text import moment
from lakeward.registry import leases
from lakeward.registry.schema import leases as leases_table
from lakeward.registry.schema import operations

SCOPE = "operation"
ABANDONED = timedelta(seconds=120)
"""A holder that has not renewed for this long counts as dead."""

STARTS = ("start", "restart", "upgrade", "rollback", "recover", "reset", "skip-batch")
"""Operations that start a stream now, regardless of earlier failures."""


@dataclass(frozen=True)
class Operation:
    """One request for a stream. `result` is None while it is under way; `params` are those of its kind."""

    id: int
    stream: str
    operation: str
    params: Mapping[str, object]
    author: str
    comment: str
    requested_at: datetime
    result: str | None
    detail: str
    finished_at: datetime | None
    approved_by: str | None
    approved_at: datetime | None


@dataclass(frozen=True)
class Ticket:
    """The right to operate on a stream while it is renewed. `abandoned`: unfinished operations of dead holders."""

    id: int
    stream: str
    token: str
    abandoned: tuple[Operation, ...] = ()


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
    **params: object,
) -> Ticket:
    """Take the lease of a stream for one operation and record the request.

    Raises:
        Refused: another operation holds the stream; names who, what and since when.
    """
    if leases.take(connection, SCOPE, stream, token, holder, ABANDONED) is None:
        raise _busy(connection, stream, operation)
    unfinished = [item for item in newest(connection, stream) if item.result is None]
    for item in unfinished:
        finish(connection, item.id, "failed", "its process died before it was done")
    operation_id = request(
        connection, stream, operation, author=author, comment=comment, approved_by=approved_by, holder=holder, **params
    )
    return Ticket(operation_id, stream, token, tuple(unfinished))


def renew(connection: Connection, ticket: Ticket) -> bool:
    """Renew the lease on the stream; False if another process took it over in the meantime."""
    return bool(leases.renew(connection, SCOPE, [ticket.stream], ticket.token, ABANDONED))


def end(connection: Connection, ticket: Ticket, result: str, detail: str) -> None:
    """Record the result and release the stream."""
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
    **params: object,
) -> int:
    """Record a request; returns the operation's id."""
    approval = {} if approved_by is None else {"approved_by": approved_by, "approved_at": func.now()}
    return int(
        connection.execute(
            insert(operations)
            .values(stream=stream, operation=operation, author=author, comment=comment, params=params, **approval)
            .returning(operations.c.id)
        ).scalar_one()
    )


def note(connection: Connection, operation_id: int, **params: object) -> None:
    """Add parameters to a running operation, e.g. `resume`: it stopped a stream that is to be started again."""
    connection.execute(
        update(operations).where(operations.c.id == operation_id).values(params=operations.c.params.op("||")(params))
    )


def finish(connection: Connection, operation_id: int, result: str, detail: str) -> None:
    """Record the result: done | refused | failed | timed_out | skipped. The first result is final."""
    connection.execute(
        update(operations)
        .where(operations.c.id == operation_id, operations.c.result.is_(None))
        .values(result=result, detail=detail, finished_at=func.now())
    )


def newest(connection: Connection, stream: str, limit: int = 20) -> list[Operation]:
    """The newest operations of a stream, newest first."""
    rows = connection.execute(
        select(operations)
        .where(operations.c.stream == stream)
        .order_by(operations.c.requested_at.desc(), operations.c.id.desc())
        .limit(limit)
    )
    return [Operation(**row._mapping) for row in rows]


def newest_starts(connection: Connection) -> dict[str, datetime]:
    """Stream -> when a person last requested a start, which resets back-off."""
    rows = connection.execute(
        select(operations.c.stream, func.max(operations.c.requested_at))
        .where(operations.c.operation.in_(STARTS), operations.c.result.is_distinct_from("refused"))
        .group_by(operations.c.stream)
    )
    return {row[0]: row[1] for row in rows}


def abandoned(connection: Connection) -> list[Operation]:
    """Operations without a result and without a lease: their process was killed."""
    leased = exists().where(
        leases_table.c.scope == SCOPE,
        leases_table.c.name == operations.c.stream,
        leases_table.c.until >= func.now(),
    )
    rows = connection.execute(
        select(operations)
        .where(operations.c.result.is_(None), operations.c.requested_at < func.now() - ABANDONED, ~leased)
        .order_by(operations.c.id)
    )
    return [Operation(**row._mapping) for row in rows]


def _busy(connection: Connection, stream: str, operation: str) -> Refused:
    row = connection.execute(
        select(
            leases_table.c.holder,
            leases_table.c.since,
            func.extract("epoch", func.now() - leases_table.c.since).label("age_s"),
        ).where(leases_table.c.scope == SCOPE, leases_table.c.name == stream)
    ).one()
    running = next((item for item in newest(connection, stream) if item.result is None), None)
    what = f"the {running.operation} requested by {running.author}" if running else "another operation"
    return Refused(
        f"Stream {stream} is locked by another operation: {operation} cannot start",
        why=f"{row.holder} executes {what} since {moment(row.since)} ({float(row.age_s):.0f} s)",
        next=f"lakeward streams events {stream}   shows its progress; if its holder dies, the lock expires after "
        f"{ABANDONED.total_seconds():.0f} s",
        code="LW-6006",
    )
