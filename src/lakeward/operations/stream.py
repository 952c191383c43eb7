"""Base of operations on one stream: registry row, generations, desired state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from lakeward.operations.operation import Operation, P
from lakeward.operations.request import StreamOperation
from lakeward.platform.errors import Refused
from lakeward.registry import events, generations, streams
from lakeward.registry.generations import Generation
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.decide.health import State


class OnStream(Operation[P]):
    """An operation on one stream, under the operation lock of that stream."""

    @property
    def stream(self) -> str:
        return self.subject

    def exists(self) -> None:
        self.row()

    def row(self) -> Stream:
        """The stream's registry row. A retired stream accepts only `stop`.

        Raises:
            SpecError: the stream does not exist.
            Refused: the stream is retired.
        """
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
        if row.removed_at is not None and self.name != StreamOperation.STOP:
            raise Refused(
                f"Cannot {self.name} stream {row.id}: it is retired",
                why="its file was removed, and the removal was deployed",
                next=f"add conf/streams/{row.id}.yaml again, then: lakeward deploy",
                code="LW-2086",
            )
        return row

    def generation(self, number: int) -> Generation:
        """One generation of the stream.

        Raises:
            Refused: the generation does not exist.
        """
        with self.context.connect() as connection:
            generation = generations.get(connection, self.stream, number)
        if generation is None:
            raise Refused(
                f"Stream {self.stream} has no generation {number}",
                why="generations are numbered from 1 and never removed",
                next=f"lakeward streams status {self.stream}",
                code="LW-2087",
            )
        return generation

    def began(self, number: int) -> datetime | None:
        """When the driver started a generation since this operation was requested; None before that."""
        with self.context.connect() as connection:
            timeline = events.newest(connection, "stream", self.stream)
        since = max((event.id for event in timeline if event.kind == self.name), default=0)
        started = [event for event in timeline if event.kind == "started" and event.id > since]
        return next((event.at for event in started[::-1] if event.fields.get("generation") == number), None)

    def changed(self, connection: Connection, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Record the audited change in the transaction that makes it."""
        self.record_change(connection, {"before": dict(before), "after": dict(after)})


def set_desired(connection: Connection, row: Stream, desired: str) -> None:
    """Set the desired state. A stream that must run becomes `starting`, and a hold on it is lifted."""
    streams.set_desired(connection, [row.id], desired)
    if desired == "running" and row.hold_until is not None:
        streams.set_hold(connection, row.id, None)
    if desired == "running" and row.desired != "running":
        streams.set_state(connection, row.id, State.STARTING.value, "asked to run")


def spec_of(generation: Generation) -> StreamSpec:
    """The spec of a generation as a model."""
    return StreamSpec.model_validate(generation.spec)
