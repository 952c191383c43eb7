"""How a batch gets into a sink: exactly once into Iceberg, at least once into Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.iceberg import offsets
from lakeward.connectors.iceberg.check import RunningBatch
from lakeward.connectors.iceberg.writer import Counted, ExactAppend, Landed
from lakeward.connectors.kafka import sink as kafka_sink
from lakeward.spec.sinks import KafkaSink
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Outcome:
    """What became of a batch.

    Attributes:
        batch: the query's batch, with its offsets.
        landed, filtered: rows in the sink by this batch; records that the transform dropped (None: not known).
        seq, snapshot: the table's, None for a sink that keeps no position.
        already: it was there before.
        stage_ms, publish_ms: how long the writing took.
    """

    batch: RunningBatch
    landed: int
    filtered: int | None
    seq: int | None = None
    snapshot: int | None = None
    already: bool = False
    stage_ms: float = 0.0
    publish_ms: float = 0.0


class Landing(Protocol):
    """A sink, as the batch sees it."""

    @property
    def exact(self) -> bool:
        """Whether the sink keeps a position. One that does not is fenced by the lease only."""
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
    ) -> Outcome:
        """Write the batch; safe to repeat as far as the sink is exact."""
        ...


@dataclass
class IcebergLanding:
    """Into a table of the lake, by the commit protocol."""

    writer: ExactAppend
    exact = True

    def running(self, batch_id: int) -> RunningBatch:
        return self.writer.running(batch_id)

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> Outcome:
        done: Landed = self.writer.land(
            rows, batch_id, counted=counted, before_publish=before_publish, complete_through=complete_through
        )
        batch = RunningBatch(
            done.position.query_id if done.position else "", batch_id, dict(done.start), dict(done.end)
        )
        return Outcome(
            batch=batch,
            landed=done.counts.landed,
            filtered=done.counts.filtered if counted.consumed is not None else None,
            seq=done.seq,
            snapshot=done.snapshot,
            already=done.already,
            stage_ms=done.stage_ms,
            publish_ms=done.publish_ms,
        )


@dataclass
class KafkaLanding:
    """Into a topic. `held` says whether this driver's lease is live: nothing else fences a second driver."""

    session: SparkSession
    query_name: str
    sources: list[str]
    sink: KafkaSink
    known: Mapping[str, str]
    held: Callable[[], None]
    exact = False

    def running(self, batch_id: int) -> RunningBatch:
        execution = offsets.execution_of(self.session, self.query_name)
        return offsets.running_batch(execution, batch_id, self.sources, {}, {})

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> Outcome:
        batch = self.running(batch_id)
        kept = rows.persist()
        try:
            landed = kept.count()
            if before_publish is not None:
                before_publish()
            self.held()
            failpoints.hit("before-send")
            if landed:
                kafka_sink.write(kept, self.sink, self.known)
        finally:
            kept.unpersist()
        consumed = counted.consumed
        filtered = None if consumed is None else max(0, consumed - landed - counted.quarantined)
        return Outcome(batch=batch, landed=landed, filtered=filtered)
