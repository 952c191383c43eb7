"""Into a sink that keeps no position: at least once, fenced by the lease only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.position import totals_of
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.engine.sinks.base import SinkState
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class AtLeastOnce:
    """A sink of this kind.

    Args:
        session, stream: whose query runs.
        sources: its sources by name.
        held: raises unless this driver's lease is live: nothing else fences a second driver.
        write: puts the rows of a batch, with its number, into the sink; a batch that is replayed comes again.
        output_mode: Spark's.
        canonical: source -> how its offsets are made canonical.
    """

    session: SparkSession
    stream: str
    sources: Sequence[str]
    held: Callable[[], None]
    write: Callable[[DataFrame, int], None]
    output_mode: str = "append"
    canonical: Mapping[str, offsets.Canonical] = field(default_factory=dict)
    exact = False

    def look(self, topic_ids: Mapping[str, str]) -> SinkState:
        """There is nothing to read."""
        return SinkState()

    def beside(
        self,
        checkpoint: str,
        kept: Checkpoint,
        declared: Callable[[], Mapping[str, str] | None],
        topics: Mapping[str, str],
    ) -> Verdict | None:
        """Nobody can say who else writes there."""
        return None

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Nothing to make."""

    def running(self, batch_id: int) -> RunningBatch:
        """From the running query, which has the stream's name."""
        execution = offsets.execution_of(self.session, self.stream)
        return offsets.running_batch(execution, batch_id, self.sources, self.canonical, {})

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Write the rows once the lease is known to be ours."""
        batch = self.running(batch_id)
        kept = rows.persist()
        try:
            (landed,) = tally(kept)
            if before_publish is not None:
                before_publish()
            self.held()
            failpoints.hit("before-send")
            if landed:
                self.write(kept, batch_id)
        finally:
            kept.unpersist()
        return BatchResult(batch, totals_of(counted, landed), counted.filtered(landed))
