"""`ExactSink`: a sink that keeps the stream's position; a `TableWriter` lands its batches by the commit protocol.

Each variant adds how its table is read and prepared. Batches go straight to the writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakeward.connectors.commit_protocol.batch import Counting, RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.writer import Read, TableWriter
from lakeward.engine.checkpoint import conflicts
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.engine.sinks.base import Declared, SinkState
from lakeward.engine.sinks.evolution import ColumnFit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

W = TypeVar("W", bound=TableWriter[Any, Any])


@dataclass(frozen=True)
class ObservedSinkTable:
    """A table before its query starts.

    Attributes:
        state: as the writer reads it.
        location: its folder; None if it is not a table of the lake.
        others: the positions of the other streams that land in it.
    """

    state: Read
    location: str | None = None
    others: Mapping[str, Position] = field(default_factory=dict)


@dataclass
class ExactSink(ABC, Generic[W]):
    """A sink whose rows and position are committed together by `writer`."""

    writer: W
    fit: ColumnFit = field(default_factory=ColumnFit, init=False)
    """How rows of the transform are put into the table's columns; set by `prepare`."""
    _observed: ObservedSinkTable | None = field(default=None, init=False)
    exact = True
    tried = False

    @property
    def one_pass(self) -> bool:
        """Whether a batch's rows are counted exactly, and invisible, before they are published."""
        return False

    @abstractmethod
    def observe_table(self) -> ObservedSinkTable | None:
        """The table now; None if there is none.

        Raises:
            DependencyDown: the catalog or database does not answer.
        """

    @abstractmethod
    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for people on how the transform fits the table."""
        return self.fit.notes

    @property
    def output_mode(self) -> str:
        """The sink's mode. An upsert takes every changed row of a query that keeps state; else each row comes once."""
        if self.writer.mode == "upsert":
            return "update" if self.writer.stateful else "append"
        return self.writer.mode

    @property
    def observed_raw(self) -> str | None:
        """The position that `observe` read, as text: the one that the checkpoint was compared with."""
        return None if self._observed is None else self._observed.state.raw

    def location(self) -> str | None:
        """The table's folder; None without a table of the lake."""
        observed = self._observed or self.observe_table()
        return None if observed is None else observed.location

    def observe(self, topic_ids: Mapping[str, str]) -> SinkState:
        """Read the table and its position. What would block the next batch is reported before the query starts."""
        self._observed = self.observe_table()
        if self._observed is None:
            self.writer.expect(None)
            return SinkState(absent=self.missing)
        state = self._observed.state
        self.writer.expect(state.raw)
        at = state.position
        if at is None:
            return SinkState(None, self.writer.check(state))
        decision = self.writer.decide(state, RunningBatch("", -1, at.end, at.end, topic_ids))
        return SinkState(at, decision if isinstance(decision, BlockReason) else self._other_mode(at))

    def missing(self) -> BlockReason:
        """The block reason of a stream that has landed and whose table is missing."""
        stream, name = self.writer.stream, self.writer.table
        return BlockReason(
            "table-missing",
            f"Table {name} of stream {stream} is missing",
            "it was dropped, moved or renamed. A new table would have none of the landed rows",
            f"restore the table, or give the stream a new id and a new table (conf/streams/{stream}.yaml), then: "
            "lakeward deploy",
            code="LW-2219",
        )

    def _other_mode(self, at: Position) -> BlockReason | None:
        """A change of the mode blocks: appended rows have no key, and the checkpoint does not record the mode."""
        stream, name, mode = self.writer.stream, self.writer.table, self.writer.mode
        if at.mode == mode:
            return None
        return BlockReason(
            "mode-changed",
            f"The mode of stream {stream} has changed, and table {name} has rows of the previous mode",
            f"up to seq {at.seq} it landed with mode {at.mode}, the sink now has mode {mode}: "
            "the landed rows are not those that this mode would have left",
            f"write mode: {at.mode} in conf/streams/{stream}.yaml, or give the stream a new id and a new table; "
            "then: lakeward deploy",
            code="LW-2220",
        )

    def conflict(
        self, checkpoint: str, content: Checkpoint, declared: Declared, topics: Mapping[str, str]
    ) -> Verdict | None:
        """A checkpoint inside the table's folder, or another stream id that has landed the same topics."""
        observed, stream, name = self._observed, self.writer.stream, self.writer.table
        if observed is None:
            return None
        if observed.location is not None:
            nested = conflicts.nested(stream, checkpoint, name, observed.location)
            if nested is not None:
                return nested
        if not content.empty or observed.state.raw is not None or not observed.others:
            return None
        others = declared()
        if others is None:
            return None
        return conflicts.renamed(stream, content, name, observed.others, others, topics, self.remove_position_hint)

    def remove_position_hint(self, other: str) -> str:
        """How to remove the position of stream `other` from the table, as the end of a sentence."""
        return ": give the stream a new id and a new table"

    def running(self, batch_id: int) -> RunningBatch:
        """The batch the query is running."""
        return self.writer.running(batch_id)

    def trial(self, row: DataFrame) -> None:
        """Write a row in the table's columns, without publishing it; raises what the write raises."""
        self.writer.trial(self.fit.apply(row))

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counting,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Stage and publish the batch in the table's columns, unless the table has it."""
        return self.writer.land(
            self.fit.apply(rows),
            batch_id,
            counted=counted,
            before_publish=before_publish,
            complete_through=complete_through,
        )
