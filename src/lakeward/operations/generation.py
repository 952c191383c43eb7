"""New generation with the same spec and a new checkpoint, after a recover, reset or skip-batch."""

from __future__ import annotations

from sqlalchemy import Connection

from lakeward.operations.stream import spec_of
from lakeward.registry import generations, streams
from lakeward.registry.generations import Generation


def accept_again(connection: Connection, generation: Generation, checkpoint: str, author: str) -> int:
    """Accept the spec of a generation under a new number with another checkpoint.

    Args:
        generation: whose spec, SQL and code are used.
        checkpoint: folder of the new checkpoint.

    Returns:
        The new number.
    """
    new_number = generations.latest(connection)[generation.stream].generation + 1
    generations.add(
        connection,
        stream=generation.stream,
        generation=new_number,
        spec=generation.spec,
        digest=generation.digest,
        sql=generation.sql,
        code=generation.code,
        versions=generation.versions,
        author=author,
        checkpoint=checkpoint,
    )
    row = streams.get(connection, generation.stream)
    streams.accept(connection, generation.stream, generation=new_number, driver=spec_of(generation).driver)
    if row.pending_generation not in (None, generation.generation):
        streams.set_pending(connection, generation.stream, row.pending_generation)  # a pending generation stays pending
    return new_number


def next_checkpoint(current: str, stream: str) -> str:
    """The next checkpoint folder: `flights`, `flights.2`, `flights.3` ... The old folder stays."""
    folder, slash, name = current.rpartition("/")
    number = name.removeprefix(f"{stream}.")
    following = int(number) + 1 if number.isdigit() else 2
    return f"{folder}{slash}{stream}.{following}"
