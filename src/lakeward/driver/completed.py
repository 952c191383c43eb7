"""Record of a completed query: an `available_now` query that has landed all available records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from lakeward.platform.text import count
from lakeward.registry import events, observations, streams

COMPLETED = "completed"
"""`observations.query_state`, and the kind of the event."""


def record(token: str, stream: str, begun: datetime, batches: int, rows: int) -> Callable[[Connection], None]:
    """A function that records, in one transaction, that a query completed.

    The desired state becomes stopped, unless a start was requested while the query ran: then another query runs,
    because this one only landed records that were available when it began.

    Args:
        token: of this launch.
        begun: database time before the query determined the available records.
        batches, rows: landed by the query.
    """
    landed = f"{batches:,} {'batch' if batches == 1 else 'batches'}, {count(rows, 'row')}"
    text = f"completed: {landed}" if batches else "completed: no records to land"

    def write(connection: Connection) -> None:
        observations.record(connection, stream, query_state=COMPLETED, error=None)
        streams.complete(connection, stream, token=token, begun=begun)
        fields = {"begun": begun.isoformat(), "batches": batches, "rows": rows}
        events.record(connection, "stream", stream, COMPLETED, text, **fields)

    return write
