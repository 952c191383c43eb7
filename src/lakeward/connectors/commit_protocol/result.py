"""What became of one batch, in a sink of any kind: what a writer gives, and what a driver reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position, Totals


@dataclass(frozen=True)
class BatchResult:
    """A batch that is in its sink.

    Attributes:
        batch: the query's batch, with its offsets.
        counts: this batch's records; zeros for a batch that was there already.
        filtered: records that the transform dropped; None: not known.
        seq, snapshot: of the position that counts it; None for a sink that keeps none. `snapshot` is also None if
            nothing was written at all.
        totals: since the stream's first position.
        already: the sink had it before (a replay).
        written: something was published; False for a batch without rows that advances nothing.
        stage_ms, publish_ms: how long step 2 and step 3 took.
        position: as it is in the sink after the batch; None if there is none.
    """

    batch: RunningBatch
    counts: Totals = field(default_factory=Totals)
    filtered: int | None = None
    seq: int | None = None
    snapshot: int | None = None
    totals: Totals = field(default_factory=Totals)
    already: bool = False
    written: bool = True
    stage_ms: float = 0.0
    publish_ms: float = 0.0
    position: Position | None = None

    @property
    def landed(self) -> int:
        """Rows in the sink by this batch."""
        return self.counts.landed

    @property
    def start(self) -> Mapping[str, str]:
        """Source name -> canonical offset where the batch began."""
        return self.batch.start

    @property
    def end(self) -> Mapping[str, str]:
        """Source name -> canonical offset up to which it goes."""
        return self.batch.end
