"""The result of landing one batch, for every kind of sink: a writer returns it, a driver reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position, Totals


@dataclass(frozen=True)
class BatchResult:
    """The result of a landed batch.

    Attributes:
        batch: the query's batch, with its offsets.
        counts: this batch's records; zeros for a batch that had landed before.
        filtered: records that the transform dropped; None if not known.
        seq, snapshot: of the position that counts it; None for a sink without a position. `snapshot` is also None if
            nothing was written.
        totals: since the stream's first position.
        already: the batch had landed before; Spark ran it again.
        written: something was published; False for a batch without rows whose offsets do not advance.
        stage_ms, publish_ms: how long step 2 and step 3 took.
        position: in the sink after the batch; None if the sink has none.
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
        """Rows that this batch added to the sink."""
        return self.counts.landed

    @property
    def start(self) -> Mapping[str, str]:
        """Source name -> canonical offset where the batch began."""
        return self.batch.start

    @property
    def end(self) -> Mapping[str, str]:
        """Source name -> canonical offset where the batch ended (exclusive)."""
        return self.batch.end
