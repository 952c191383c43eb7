"""hold and unhold: suspend the automatic restarts of a stream until a time. Stops nothing and does not wait."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from lakeward.platform.errors import Refused, SpecError
from lakeward.registry import changes, events, streams
from lakeward.spec.model.types import Duration


def hold(connection: Connection, stream: str, until: datetime | Duration, *, author: str, comment: str) -> str:
    """Suspend a stream's automatic restarts until a time; returns the sentence for people.

    Raises:
        SpecError: the stream does not exist, or the time is in the past.
    """
    row = streams.get(connection, stream)
    now = connection.execute(select(func.now())).scalar_one()
    end = until if isinstance(until, datetime) else now + until.timedelta
    if end <= now:
        raise SpecError(
            f"Cannot hold stream {stream} until {end:%Y-%m-%d %H:%M} UTC",
            why=f"that time is in the past: the registry's time is {now:%Y-%m-%d %H:%M} UTC",
            next=f"lakeward streams hold {stream} --for 2h",
            code="LW-2022",
        )
    streams.set_hold(connection, stream, end)
    text = f"no automatic restart until {end:%Y-%m-%d %H:%M} UTC"
    _record(connection, stream, "hold", author, comment, row.hold_until, end, text)
    return text


def lift(connection: Connection, stream: str, *, author: str, comment: str) -> str:
    """Lift a hold.

    Raises:
        SpecError: the stream does not exist.
        Refused: the stream is not held.
    """
    row = streams.get(connection, stream)
    if row.hold_until is None:
        raise Refused(
            f"Stream {stream} is not held",
            why="no hold is set on its automatic restarts",
            next=f"lakeward streams hold {stream} --for 2h",
            code="LW-2023",
        )
    streams.set_hold(connection, stream, None)
    text = "automatic restarts are on again"
    _record(connection, stream, "unhold", author, comment, row.hold_until, None, text)
    return text


def _record(
    connection: Connection,
    stream: str,
    change: str,
    author: str,
    comment: str,
    before: datetime | None,
    after: datetime | None,
    text: str,
) -> None:
    times = {"before": before, "after": after}
    values = {name: {"hold_until": None if at is None else at.isoformat()} for name, at in times.items()}
    changes.record(connection, "stream", stream, change, author=author, comment=comment, **values)
    events.record(connection, "stream", stream, change, f"{text} (by {author})", comment=comment)
