"""Sinks without a position: at least once, fenced by the lease only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.commit_protocol.batch import Counting, RunningBatch
from lakeward.connectors.commit_protocol.position import totals_of
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.engine.sinks.base import Declared, SinkContext, SinkState
from lakeward.platform.errors import expect
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Write = Callable[["DataFrame", RunningBatch], None]
"""Writes the rows of a batch. A replayed batch is written again."""


@dataclass
class AtLeastOnceSink:
    """A sink that `write` writes to.

    Args:
        context: session, stream and sources; its lease is the only fence against a second driver.
        write: writes the rows of a batch.
        output_mode: Spark's.
    """

    context: SinkContext
    write: Write
    output_mode: str = "append"
    notes: tuple[str, ...] = field(default=(), init=False)
    exact = False
    one_pass = False
    tried = False

    def location(self) -> None:
        """None: it is not a table."""

    def observe(self, topic_ids: Mapping[str, str]) -> SinkState:
        """Empty: the sink records nothing about the stream."""
        return SinkState()

    def conflict(
        self, checkpoint: str, content: Checkpoint, declared: Declared, topics: Mapping[str, str]
    ) -> Verdict | None:
        """None: the sink does not record who writes to it."""
        return None

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Nothing is created."""

    def trial(self, row: DataFrame) -> None:
        """Nothing: what is written to it is seen."""

    def running(self, batch_id: int) -> RunningBatch:
        """The batch of the running query, which has the stream's name."""
        context = self.context
        execution = offsets.execution_of(context.session, context.stream)
        return offsets.running_batch(execution, batch_id, context.sources, context.canonical, {})

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counting,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Write the rows after checking the lease."""
        batch = self.running(batch_id)
        counted.before()
        cached = rows.persist()
        try:
            (landed,) = tally(cached)
            if before_publish is not None:
                before_publish()
            self.context.check_lease()
            failpoints.hit("before-send")
            if landed:
                self.write(cached, batch)
        finally:
            cached.unpersist()
        known = counted.after(landed)
        return BatchResult(batch, totals_of(known, landed), known.filtered(landed))


@dataclass
class RealTimeSink(AtLeastOnceSink):
    """The sink of a real-time query, which has sent its rows itself: records between two boundaries are only counted.

    Attributes:
        batch: the records between two boundaries; set before each `land`.
    """

    batch: RunningBatch | None = field(default=None, init=False)

    def running(self, batch_id: int) -> RunningBatch:
        """The records that are being accounted for."""
        return expect(self.batch, "the batch of a real-time sink, which the record accounting sets")


def make(context: SinkContext, write: Write, output_mode: str = "append") -> AtLeastOnceSink:
    """Make a sink without a position; for a real-time query, one that only counts."""
    if context.spec.trigger.unbatched:
        return RealTimeSink(context, lambda rows, batch: None)
    return AtLeastOnceSink(context, write, output_mode)
