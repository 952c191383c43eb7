"""Restarts: every failure, its class, and when the next attempt is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on

from lakeward.registry.schema import restarts


@dataclass(frozen=True)
class Restart:
    """One failure and what was decided."""

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
    """Write one failure; `delay` is counted from the database's now, None means no further attempt by itself."""
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


def newest(connection: Connection) -> dict[tuple[str, str | None], Restart]:
    """The newest failure of each (driver, stream); stream None is the whole driver."""
    statement = (
        select(
            restarts,
            func.extract("epoch", func.now() - restarts.c.at).label("age_s"),
            func.coalesce(restarts.c.next_attempt_at <= func.now(), False).label("due"),
        )
        .ext(distinct_on(restarts.c.driver, restarts.c.stream))
        .order_by(restarts.c.driver, restarts.c.stream, restarts.c.at.desc(), restarts.c.id.desc())
    )
    found: dict[tuple[str, str | None], Restart] = {}
    for row in connection.execute(statement):
        values: dict[str, Any] = dict(row._mapping)
        values["age_s"] = float(values["age_s"])
        found[row.driver, row.stream] = Restart(**values)
    return found


def count_24h(connection: Connection) -> dict[tuple[str, str | None], int]:
    """Failures of the last 24 hours by (driver, stream)."""
    rows = connection.execute(
        select(restarts.c.driver, restarts.c.stream, func.count())
        .where(restarts.c.at > func.now() - timedelta(hours=24))
        .group_by(restarts.c.driver, restarts.c.stream)
    )
    return {(row[0], row[1]): int(row[2]) for row in rows}
