"""What operations leave behind whose holder was killed: a stream they stopped and would have started again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection

from lakeward.registry import changes, operations, streams

RESUME = "resume"
"""Parameter of an operation that stopped a stream which is to run again when it is done."""
_MOVES = ("reset", "skip-batch", "rebuild", "restore")
"""Operations that may mend what blocked the stream: who died half way may have changed nothing, so it stands."""


def finish(connection: Connection) -> None:
    """End every abandoned operation, and start what it had stopped."""
    left = operations.abandoned(connection)
    for item in left:
        operations.finish(connection, item["id"], "failed", "whoever carried it out died half way")
    resume(connection, left)


def resume(connection: Connection, left: Iterable[dict[str, Any]]) -> None:
    """Want the streams running again that these operations stopped for a while. One that a reset or a skip-batch was
    to mend still waits for a person."""
    for item in left:
        stream = streams.find(connection, item["stream"])
        if stream is None or stream.removed_at is not None or stream.desired == "running":
            continue
        if item["params"].get(RESUME):
            streams.set_desired(connection, [stream.id], "running", keep_block=item["operation"] in _MOVES)
            changes.record(
                connection,
                "stream",
                stream.id,
                "start",
                author="reconcile",
                comment=f"finishes the {item['operation']} of {item['author']}",
            )
