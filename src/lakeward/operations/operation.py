"""What every operation is: a plan that touches nothing, and the doing of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Connection

from lakeward.operations.context import Site
from lakeward.operations.request import Operation, Plan, Request
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import Refused
from lakeward.registry import changes, generations, streams
from lakeward.registry.generations import Generation
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.decide.health import State

P = TypeVar("P", bound=Plan)


class Act(ABC, Generic[P]):
    """One operation on one stream. A new one for every request."""

    operation: ClassVar[Operation]
    asks: ClassVar[bool] = False
    """Whether it waits for a person's approval, and cannot do without a comment."""

    def __init__(self, site: Site, request: Request) -> None:
        self.site = site
        self.request = request

    @property
    def stream(self) -> str:
        return self.request.stream

    @abstractmethod
    def plan(self) -> P:
        """What would be done.

        Raises:
            SpecError: there is no such stream, or what was asked for cannot be read.
            Refused: it cannot be done as things are.
        """

    @abstractmethod
    def do(self, plan: P, waiting: Waiting) -> str:
        """Do it, and tell how it went.

        Raises:
            LakewardError: it was refused, failed, or is still going on.
        """

    def row(self) -> Stream:
        """The stream's row; a removed stream is only stopped.

        Raises:
            SpecError: there is no such stream.
            Refused: its file was removed.
        """
        with self.site.connect() as connection:
            row = streams.get(connection, self.stream)
        if row.removed_at is not None and self.operation is not Operation.STOP:
            raise Refused(
                f"Stream {row.id} cannot be started", why="its file was removed and deployed", next="lakeward deploy"
            )
        return row

    def generation(self, number: int) -> Generation:
        """One generation of the stream.

        Raises:
            Refused: there is no such generation.
        """
        with self.site.connect() as connection:
            found = generations.get(connection, self.stream, number)
        if found is None:
            raise Refused(
                f"Stream {self.stream} has no generation {number}",
                why="generations count from 1 and none is ever removed",
                next=f"lakeward streams status {self.stream}",
            )
        return found

    def changed(self, connection: Connection, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """The audited change, in the transaction that makes it."""
        approval = self.request.approval
        changes.record(
            connection,
            "stream",
            self.stream,
            self.operation.value,
            author=self.site.author,
            comment=self.request.comment,
            before=dict(before),
            after=dict(after),
            **({} if approval is None else {"approved_by": approval.by}),
        )

    def want(self, connection: Connection, row: Stream, desired: str) -> None:
        """Say what is wanted; a stream that is to run now is `starting`, and a hold of it is lifted."""
        streams.set_desired(connection, [row.id], desired)
        if desired == "running" and row.hold_until is not None:
            streams.set_hold(connection, row.id, None)
        if desired == "running" and row.desired != "running":
            streams.set_state(connection, row.id, State.STARTING.value, "asked to run")


def spec_of(generation: Generation) -> StreamSpec:
    """The spec of a generation as a model."""
    return StreamSpec.model_validate(generation.spec)
