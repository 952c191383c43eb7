"""Abandoned operations: mark operations whose process died as failed, and start the streams that they had stopped."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from lakeward.platform.boundary import attempt
from lakeward.registry import changes, operations, streams
from lakeward.registry.operations import Operation

RESUME = "resume"
"""Parameter of an operation that stopped a stream and starts it again at its end."""
_MOVES = ("reset", "skip-batch", "rebuild", "restore")
"""Operations that may remove what blocks the stream. After an abort the block stays: nothing may have changed yet."""


def finish(connection: Connection) -> None:
    """Mark every abandoned operation as failed, and start the streams that it had stopped."""
    abandoned = operations.abandoned(connection)
    for item in abandoned:
        operations.finish(connection, item.id, "failed", "its process died before it was done")
    for item in abandoned:
        attempt(
            f"operation {item.id} on stream {item.stream}",
            partial(resume, connection, [item]),
            through=(OperationalError,),
            within=connection.begin_nested,
        )


def resume(connection: Connection, abandoned: Iterable[Operation]) -> None:
    """Start the streams that these operations had stopped. A stream that a reset or a skip-batch was to unblock stays
    blocked."""
    for item in abandoned:
        stream = streams.find(connection, item.stream)
        if stream is None or stream.removed_at is not None or stream.desired == "running":
            continue
        if item.params.get(RESUME):
            streams.set_desired(connection, [stream.id], "running", keep_block=item.operation in _MOVES)
            changes.record(
                connection,
                "stream",
                stream.id,
                "start",
                author="reconcile",
                comment=f"finishes the {item.operation} of {item.author}",
            )
