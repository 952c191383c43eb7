"""Into a table that keeps the stream's position, by the commit protocol; what tables of every format share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.writer import Read, TableWriter
from lakeward.engine.checkpoint import conflicts
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.engine.sinks.base import SinkState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = structlog.get_logger(__name__)

W = TypeVar("W", bound=TableWriter[Any, Any])


@dataclass(frozen=True)
class ObservedSinkTable:
    """A table before a query starts.

    Attributes:
        state: as the writer reads it.
        location: its folder.
        others: the positions of the other streams that land in it.
    """

    state: Read
    location: str
    others: Mapping[str, Position]


@dataclass
class ExactLanding(ABC, Generic[W]):
    """Lands by `writer`, in the session that starts the query, by the `mode` of the sink."""

    writer: W
    mode: str
    exact = True
    _seen: ObservedSinkTable | None = field(default=None, init=False)

    @abstractmethod
    def see(self) -> ObservedSinkTable | None:
        """The table now; None without one.

        Raises:
            DependencyDown: whoever knows the table does not answer.
        """

    @abstractmethod
    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""

    def folder(self) -> str | None:
        """The table's location; None without a table."""
        seen = self._seen or self.see()
        return None if seen is None else seen.location

    @property
    def output_mode(self) -> str:
        """Of a query that keeps state, every changed row is what an upsert takes; else rows come once in any mode."""
        if self.mode == "upsert":
            return "update" if self.writer.stateful else "append"
        return self.mode

    def look(self, topic_ids: Mapping[str, str]) -> SinkState:
        """The position in the table's metadata; what would block the next batch is said now, not when it comes."""
        self._seen = self.see()
        if self._seen is None:
            self.writer.expect(None)
            return SinkState(absent=self.absent)
        state = self._seen.state
        self.writer.expect(state.raw)
        at = state.position
        if at is None:
            return SinkState(None, self.writer.check(state))
        found = self.writer.decide(state, RunningBatch("", -1, at.end, at.end, topic_ids))
        return SinkState(at, found if isinstance(found, BlockReason) else self._other_mode(at))

    def absent(self) -> BlockReason:
        """What became of the table of a stream that has landed in it."""
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
        """Rows that were appended have no key, and a checkpoint says nothing of how its rows were taken."""
        stream, name = self.writer.stream, self.writer.table
        if at.mode == self.mode:
            return None
        return BlockReason(
            "mode-changed",
            f"Stream {stream} is to land in {name} by another mode than before",
            f"up to seq {at.seq} it landed by {at.mode}, now the sink says {self.mode}: "
            "the rows that are there would not be what this mode makes of them",
            f"say mode: {at.mode} again in conf/streams/{stream}.yaml, or name a new id and a new table; "
            "then: lakeward deploy",
            code="LW-2220",
        )

    def beside(
        self,
        checkpoint: str,
        kept: Checkpoint,
        declared: Callable[[], Mapping[str, str] | None],
        topics: Mapping[str, str],
    ) -> Verdict | None:
        """A checkpoint below the table's folder, or a stream that landed the same topics under another id."""
        if self._seen is None:
            return None
        stream, name = self.writer.stream, self.writer.table
        found = conflicts.nested(stream, checkpoint, name, self._seen.location)
        if found is not None or not kept.empty or self._seen.state.raw is not None:
            return found
        others = declared()
        if others is None:
            return None
        return conflicts.renamed(stream, kept, name, self._seen.others, others, topics, self.without)

    @abstractmethod
    def without(self, other: str) -> str:
        """How a person takes the position of another stream out of the table, as words that end a sentence."""

    def running(self, batch_id: int) -> RunningBatch:
        """From the running query."""
        return self.writer.running(batch_id)

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Stage and publish the batch, unless the table has it."""
        return self.writer.land(
            rows, batch_id, counted=counted, before_publish=before_publish, complete_through=complete_through
        )
