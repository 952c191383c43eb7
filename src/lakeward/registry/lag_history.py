"""Lag history: how far behind each stream was, and how large its state, about once a minute. A copy for display."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry import version
from lakeward.registry.schema import lag_history

EVERY_S = 60.0
"""A driver records a stream at most once in this time."""
MOST = 360
"""The number of points that a reading has at most, and the widest chart can show."""


@dataclass(frozen=True)
class Moment:
    """The largest figures of a stream within one interval of time, which begins at `at`.

    Attributes:
        lag_records, lag_s: records that waited, and the age of the oldest in seconds; None if not known.
        state_rows, state_bytes: all its state stores; None without state.
    """

    at: datetime
    lag_records: int | None
    lag_s: float | None
    state_rows: int | None
    state_bytes: int | None


def exists(connection: Connection) -> bool:
    """Whether this registry has the table: a driver may be one version newer."""
    return bool(version.columns(connection, lag_history.name))


def record(
    connection: Connection,
    stream: str,
    *,
    lag_records: int | None,
    lag_s: float | None,
    state_rows: int | None = None,
    state_bytes: int | None = None,
) -> None:
    """Record the figures of a stream at the time of this transaction; a second record of one transaction is ignored."""
    figures = {"lag_records": lag_records, "lag_s": lag_s, "state_rows": state_rows, "state_bytes": state_bytes}
    connection.execute(insert(lag_history).values(stream=stream, **figures).on_conflict_do_nothing())


def newest(connection: Connection, stream: str, span: timedelta) -> list[Moment]:
    """The figures of the last `span`, oldest first.

    A long span is thinned: each moment has the largest figures of its interval, so that no peak disappears.
    """
    width = timedelta(seconds=max(EVERY_S, span.total_seconds() / MOST))
    begin = func.date_bin(width, lag_history.c.at, datetime(2026, 1, 1, tzinfo=UTC)).label("begin")
    columns = (lag_history.c.lag_records, lag_history.c.lag_s, lag_history.c.state_rows, lag_history.c.state_bytes)
    statement = (
        select(begin, *(func.max(column) for column in columns))
        .where(lag_history.c.stream == stream, lag_history.c.at > func.now() - span)
        .group_by(begin)
        .order_by(begin)
    )
    return [Moment(*row) for row in connection.execute(statement)]
