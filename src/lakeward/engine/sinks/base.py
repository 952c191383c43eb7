"""`StreamSink`: the sink of a running stream, as the start of its query and its batches use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lakeward.connectors.commit_protocol.batch import Counting, RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.offsets import Canonical
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.engine.assignment import Assignment
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

W = TypeVar("W")

Declared = Callable[[], Mapping[str, str] | None]
"""Returns every declared stream with its checkpoint; None if the registry does not answer."""


@dataclass(frozen=True)
class SinkContext:
    """What every sink of a stream is made from.

    Attributes:
        session: the session that starts the query.
        assignment: the stream and the generation that runs.
        runtime: addresses.
        topic_ids: returns topic -> id in the broker; called at every batch.
        check_lease: raises unless this driver's lease of the stream is live.
        canonical: source name -> canonical form of its offsets.
    """

    session: SparkSession
    assignment: Assignment
    runtime: Runtime
    topic_ids: Callable[[], Mapping[str, str]]
    check_lease: Callable[[], None]
    canonical: Mapping[str, Canonical]

    @property
    def spec(self) -> StreamSpec:
        return self.assignment.spec

    @property
    def stream(self) -> str:
        return self.assignment.stream

    @property
    def sources(self) -> list[str]:
        """The names of the stream's sources."""
        return [str(name) for name in self.spec.sources]

    @property
    def additive(self) -> bool:
        """Whether a start may add columns to the table."""
        return self.spec.schema_.evolution == "additive"

    def writer(self, kind: Callable[..., W], table: str, **own: Any) -> W:
        """Make a `TableWriter`.

        Args:
            kind: its class.
            table: the name of what it writes to.
            own: further arguments of the class.
        """
        return kind(
            session=self.session,
            stream=self.stream,
            table=table,
            query_name=self.stream,
            sources=self.sources,
            generation=self.assignment.generation,
            canonical=self.canonical,
            topic_ids=self.topic_ids,
            **own,
        )


@dataclass(frozen=True)
class SinkState:
    """A sink before its query starts.

    Attributes:
        position: what the sink says is landed; None for a new stream, or a sink without positions.
        halt: what would block the next batch.
        absent: set if the table is missing: returns the reason. A new stream has no table yet.
    """

    position: Position | None = None
    halt: BlockReason | None = None
    absent: Callable[[], BlockReason] | None = None


class StreamSink(Protocol):
    """The sink of a running stream."""

    @property
    def exact(self) -> bool:
        """Whether the sink keeps a position. A sink without one is fenced by the lease only."""
        ...

    @property
    def one_pass(self) -> bool:
        """Whether a batch can be counted by its write alone: its rows are staged, and appended as they are."""
        ...

    @property
    def tried(self) -> bool:
        """Whether `trial` writes as a batch does, and whatever fails outside of a task fails without a record."""
        ...

    @property
    def output_mode(self) -> str:
        """Spark's output mode of the query."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for people on how the transform fits the table; known after `prepare`."""
        ...

    def location(self) -> str | None:
        """The folder of the table; None if the sink is not a table of the lake."""
        ...

    def observe(self, topic_ids: Mapping[str, str]) -> SinkState:
        """Read the state of the sink.

        Args:
            topic_ids: topic -> id in the broker now.

        Raises:
            DependencyDown: the system does not answer.
        """
        ...

    def conflict(
        self, checkpoint: str, content: Checkpoint, declared: Declared, topics: Mapping[str, str]
    ) -> Verdict | None:
        """A conflict with another stream, or with the location of the checkpoint; None without one.

        Args:
            checkpoint, content: the folder of the checkpoint, and its content.
            declared: the declared streams.
            topics: topic -> id, of the stream's sources.
        """
        ...

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the sink, or check that the columns fit it.

        Args:
            columns: of the transform's result, as a Spark schema.
            stateful: whether the query keeps state.

        Raises:
            SpecError: they do not fit.
        """
        ...

    def running(self, batch_id: int) -> RunningBatch:
        """The batch the query is running; called inside it."""
        ...

    def trial(self, row: DataFrame) -> None:
        """Write a row of no record as a batch is written, and never publish it; raises what the write raises."""
        ...

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counting,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Write the batch. A repeat changes nothing if the sink is exact."""
        ...
