"""A sink, as the start of a stream and its batches see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Declared = Callable[[], Mapping[str, str] | None]
"""Gives every declared stream with its checkpoint; None while nobody can say."""


@dataclass(frozen=True)
class SinkState:
    """A sink before a query starts: its position, and what stands in the way of any batch, if something does.

    Attributes:
        absent: of a sink that is a table: says what became of it, where there is none. Fine for a stream that is new.
    """

    position: Position | None = None
    halt: BlockReason | None = None
    absent: Callable[[], BlockReason] | None = None


class Landing(Protocol):
    """A sink."""

    @property
    def exact(self) -> bool:
        """Whether the sink keeps a position. One that does not is fenced by the lease only."""
        ...

    @property
    def output_mode(self) -> str:
        """Spark's output mode."""
        ...

    def look(self, topic_ids: Mapping[str, str]) -> SinkState:
        """How the sink stands; `topic_ids` as the broker has them.

        Raises:
            DependencyDown: it cannot be reached.
        """
        ...

    def beside(
        self,
        checkpoint: str,
        kept: Checkpoint,
        declared: Callable[[], Mapping[str, str] | None],
        topics: Mapping[str, str],
    ) -> Verdict | None:
        """What another stream, or the place of the checkpoint, does to this one.

        Args:
            checkpoint, kept: its folder, and what is in it.
            declared: the declared streams.
            topics: topic -> id, of the stream's sources.
        """
        ...

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Make the sink, or check that it fits.

        Args:
            columns: of the transform's result, as a Spark schema.
            stateful: whether the query keeps state.

        Raises:
            SpecError: it does not.
        """
        ...

    def running(self, batch_id: int) -> RunningBatch:
        """The batch that runs, from inside it."""
        ...

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Write the batch; safe to repeat as far as the sink is exact."""
        ...
