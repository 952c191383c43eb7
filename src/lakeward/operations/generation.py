"""A generation that is another one's spec with another checkpoint: after a recovery, a reset or a skip."""

from __future__ import annotations

from sqlalchemy import Connection

from lakeward.operations.stream import spec_of
from lakeward.registry import generations, streams
from lakeward.registry.generations import Generation


def again(connection: Connection, kept: Generation, checkpoint: str, author: str) -> int:
    """Accept the spec of `kept` once more, under a new number, with `checkpoint`; the number."""
    number = generations.latest(connection)[kept.stream].generation + 1
    generations.add(
        connection,
        stream=kept.stream,
        generation=number,
        spec=kept.spec,
        digest=kept.digest,
        sql=kept.sql,
        code=kept.code,
        versions=kept.versions,
        author=author,
        checkpoint=checkpoint,
    )
    row = streams.get(connection, kept.stream)
    streams.accept(connection, kept.stream, generation=number, driver=spec_of(kept).driver)
    if row.pending_generation not in (None, kept.generation):
        streams.set_pending(connection, kept.stream, row.pending_generation)  # what waits goes on waiting
    return number


def next_checkpoint(current: str, stream: str) -> str:
    """The next folder: `flights`, `flights.2`, `flights.3` ... The old one is left where it is."""
    folder, slash, name = current.rpartition("/")
    number = name.removeprefix(f"{stream}.")
    following = int(number) + 1 if number.isdigit() else 2
    return f"{folder}{slash}{stream}.{following}"
