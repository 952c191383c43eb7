"""The end of a query that landed all there was: what the registry hears of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from lakeward.platform.text import count
from lakeward.registry import events, observations, streams

COMPLETED = "completed"
"""`observations.query_state`, and the kind of the event."""


def record(token: str, stream: str, begun: datetime, batches: int, rows: int) -> Callable[[Connection], None]:
    """What writes down, in one transaction, that a query completed.

    The stream is not wanted any more, unless somebody asked for it while the query ran: then another one runs, because
    this one only landed what was there when it began.

    Args:
        token: of this launch.
        begun: database time before the query looked at what is available.
        batches, rows: landed by it.
    """
    landed = f"{batches:,} {'batch' if batches == 1 else 'batches'}, {count(rows, 'row')}"
    text = f"completed: {landed}" if batches else "completed: there was nothing to land"

    def write(connection: Connection) -> None:
        observations.record(connection, stream, query_state=COMPLETED, error=None)
        streams.complete(connection, stream, token=token, begun=begun)
        fields = {"begun": begun.isoformat(), "batches": batches, "rows": rows}
        events.record(connection, "stream", stream, COMPLETED, text, **fields)

    return write
