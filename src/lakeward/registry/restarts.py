"""Restarts: every failure, its class, and when the next attempt is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update
from sqlalchemy.dialects.postgresql import distinct_on

from lakeward.registry.schema import restarts


@dataclass(frozen=True)
class Restart:
    """One failure and the decision about it."""

    id: int
    driver: str
    stream: str | None
    at: datetime
    failure_class: str
    error: str
    exit_code: int | None
    attempt: int
    next_attempt_at: datetime | None
    age_s: float
    due: bool


def record(
    connection: Connection,
    *,
    driver: str,
    stream: str | None,
    failure_class: str,
    error: str,
    attempt: int,
    delay: timedelta | None,
    exit_code: int | None = None,
) -> None:
    """Write one failure; `delay` is counted from the database's now, None means no further automatic attempt."""
    connection.execute(
        insert(restarts).values(
            driver=driver,
            stream=stream,
            failure_class=failure_class,
            error=error,
            exit_code=exit_code,
            attempt=attempt,
            next_attempt_at=None if delay is None else func.now() + delay,
        )
    )


def recent(connection: Connection, driver: str, limit: int) -> list[Restart]:
    """The newest failures of a whole driver, newest first, without those of single streams in it."""
    rows = connection.execute(
        _select()
        .where(restarts.c.driver == driver, restarts.c.stream.is_(None))
        .order_by(restarts.c.at.desc(), restarts.c.id.desc())
        .limit(limit)
    )
    return [_read(row) for row in rows]


def within(connection: Connection, window: timedelta) -> list[tuple[str, str | None, str, str]]:
    """(driver, stream, class, error) of every failure within a window; stream None is the whole driver."""
    rows = connection.execute(
        select(restarts.c.driver, restarts.c.stream, restarts.c.failure_class, restarts.c.error)
        .where(restarts.c.at > func.now() - window)
        .order_by(restarts.c.id)
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def sooner(connection: Connection, ids: Sequence[int], delay: timedelta) -> None:
    """Move attempts that are due later than `delay` from now to that time: their dependency is back."""
    moment = func.now() + delay
    connection.execute(
        update(restarts)
        .where(restarts.c.id.in_(ids), restarts.c.next_attempt_at > moment)
        .values(next_attempt_at=moment)
    )


def newest(connection: Connection) -> dict[tuple[str, str | None], Restart]:
    """The newest failure of each (driver, stream); stream None is the whole driver."""
    statement = (
        _select()
        .ext(distinct_on(restarts.c.driver, restarts.c.stream))
        .order_by(restarts.c.driver, restarts.c.stream, restarts.c.at.desc(), restarts.c.id.desc())
    )
    return {(row.driver, row.stream): _read(row) for row in connection.execute(statement)}


def _select() -> Select[Any]:
    return select(
        restarts,
        func.extract("epoch", func.now() - restarts.c.at).label("age_s"),
        func.coalesce(restarts.c.next_attempt_at <= func.now(), False).label("due"),
    )


def _read(row: Row[Any]) -> Restart:
    return Restart(**{**row._mapping, "age_s": float(row.age_s)})


def count_24h(connection: Connection) -> dict[tuple[str, str | None], int]:
    """Failures of the last 24 hours by (driver, stream)."""
    rows = connection.execute(
        select(restarts.c.driver, restarts.c.stream, func.count())
        .where(restarts.c.at > func.now() - timedelta(hours=24))
        .group_by(restarts.c.driver, restarts.c.stream)
    )
    return {(row[0], row[1]): int(row[2]) for row in rows}
