"""hold and unhold: no restart by itself until a time. Nothing is stopped and nothing is waited for."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from lakeward.platform.errors import Refused, SpecError
from lakeward.registry import changes, events, streams
from lakeward.spec.model.types import Duration


def hold(connection: Connection, stream: str, until: datetime | Duration, *, author: str, comment: str) -> str:
    """Hold a stream's automatic restarts; says until when.

    Raises:
        SpecError: there is no such stream, or the time is over.
    """
    row = streams.get(connection, stream)
    now = connection.execute(select(func.now())).scalar_one()
    end = until if isinstance(until, datetime) else now + until.timedelta
    if end <= now:
        raise SpecError(
            f"{end:%Y-%m-%d %H:%M} UTC is over", why=f"the registry's time is {now:%Y-%m-%d %H:%M} UTC", code="LW-2022"
        )
    streams.set_hold(connection, stream, end)
    text = f"no restart by itself until {end:%Y-%m-%d %H:%M} UTC"
    _tell(connection, stream, "hold", author, comment, row.hold_until, end, text)
    return text


def lift(connection: Connection, stream: str, *, author: str, comment: str) -> str:
    """Lift a hold.

    Raises:
        SpecError: there is no such stream.
        Refused: it is not held.
    """
    row = streams.get(connection, stream)
    if row.hold_until is None:
        raise Refused(f"Stream {stream} is not held", next=f"lakeward streams hold {stream} --for 2h", code="LW-2023")
    streams.set_hold(connection, stream, None)
    text = "it is restarted by itself again"
    _tell(connection, stream, "unhold", author, comment, row.hold_until, None, text)
    return text


def _tell(
    connection: Connection,
    stream: str,
    change: str,
    author: str,
    comment: str,
    before: datetime | None,
    after: datetime | None,
    text: str,
) -> None:
    moments = {"before": before, "after": after}
    said = {name: {"hold_until": None if at is None else at.isoformat()} for name, at in moments.items()}
    changes.record(connection, "stream", stream, change, author=author, comment=comment, **said)
    events.record(connection, "stream", stream, change, f"{text} (by {author})", comment=comment)
