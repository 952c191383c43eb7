"""Into a folder of files: each batch published by one rename, with its position."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.follow import AlreadyLanded, Halt, follow
from lakeward.connectors.commit_protocol.position import Position, Totals, totals_of
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.folder import store
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.engine.sinks.base import Outcome, Standing
from lakeward.platform.errors import Fenced, SpecError
from lakeward.spec.model.sinks import FilesSink
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS: dict[str, dict[str, str]] = {"csv": {"header": "true"}, "json": {"ignoreNullFields": "false"}}
_NOT_IN_CSV = ("array", "map", "struct", "binary", "variant")


@dataclass
class FilesLanding:
    """A files sink.

    Args:
        session, stream, generation: whose query runs.
        sources: its sources by name.
        sink: the spec's.
        topic_ids: topic -> id in the broker, asked at every batch when its rows were read.
        canonical: source -> how its offsets are made canonical.
    """

    session: SparkSession
    stream: str
    generation: int
    sources: Sequence[str]
    sink: FilesSink
    topic_ids: Callable[[], Mapping[str, str]]
    canonical: Mapping[str, offsets.Canonical] = field(default_factory=dict)
    exact = True
    output_mode = "append"
    stateful: bool = field(default=True, init=False)
    _seen: Position | None = field(default=None, init=False)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(str(self.sink.path))

    def look(self, topic_ids: Mapping[str, str]) -> Standing:
        """The newest batch's position; what would block the next batch is said now, not when it comes."""
        at = self._seen = store.newest(self.path, self.stream)
        if at is None:
            return Standing()
        found = follow(self.stream, str(self.path), at, RunningBatch("", -1, at.end, at.end, topic_ids))
        return Standing(at, self._advised(found) if isinstance(found, Halt) else None)

    def beside(
        self,
        checkpoint: str,
        kept: Checkpoint,
        declared: Callable[[], Mapping[str, str] | None],
        topics: Mapping[str, str],
    ) -> Verdict | None:
        """A folder names its one stream itself."""
        return None

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Make the folder, and see whether the columns fit files of this format."""
        self.stateful = stateful
        kinds = {each.name: each.dataType.typeName() for each in columns.fields}
        parts = [str(name) for name in self.sink.partition_by]
        wrong = [f"no column {name} to partition by" for name in parts if name not in kinds]
        if not set(kinds) - set(parts):
            wrong.append("no column is left beside those to partition by")
        if "seq" in (name.lower() for name in kinds):
            wrong.append("a column seq: that is the name of each batch's folder")
        if self.sink.format == "csv":
            nested = [name for name, kind in kinds.items() if kind in _NOT_IN_CSV and name not in parts]
            wrong += [f"CSV has no place for {name}, which is {kinds[name].upper()}" for name in nested]
        if wrong:
            raise SpecError(
                f"The columns of stream {self.stream} do not fit its files", why="; ".join(wrong),
                next=f"correct the transform or the sink in conf/streams/{self.stream}.yaml, then: lakeward deploy",
            )  # fmt: skip
        store.prepare(self.path, self.stream)

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
    ) -> Outcome:
        """Write the batch beside the others and rename it in; nothing, when it is there already."""
        batch, began = self.running(batch_id), time.monotonic()
        at = store.newest(self.path, self.stream)
        if at != self._seen:
            raise self._fenced(at)
        found = follow(self.stream, str(self.path), at, batch)
        if isinstance(found, Halt):
            raise self._advised(found).error()
        if isinstance(found, AlreadyLanded):
            if self.stateful:  # the state store commits by being executed
                rows.write.format("noop").mode("overwrite").save()
            return Outcome(batch, 0, None, seq=found.position.seq, already=True)
        failpoints.hit("after-check")
        staged = self.path / store.STAGING / f"{found.seq}-{secrets.token_hex(6)}"
        kept = rows.persist()
        try:
            (landed,) = tally(kept)
            counts = totals_of(counted, landed)
            if not landed and not batch.advances and at is not None and not counts.quarantined:
                return Outcome(batch, 0, counted.filtered(landed), seq=at.seq)
            staged.mkdir(parents=True)
            if landed:
                self._write(kept, staged)
            failpoints.hit("after-stage")
            batch = replace(batch, topic_ids=dict(self.topic_ids()))  # when its rows were read: of the same topics?
            moved = follow(self.stream, str(self.path), at, batch)
            if isinstance(moved, Halt):
                raise self._advised(moved).error()
            if before_publish is not None:
                before_publish()
                failpoints.hit("after-quarantine")
            written = time.monotonic()
            position = self._position(at, found.seq, batch, counts, complete_through, staged.name)
            try:
                store.publish(staged, self.path, self.stream, position)
            except store.Taken:
                raise self._fenced(store.newest(self.path, self.stream)) from None
            self._seen = position
            failpoints.hit("after-publish")
        finally:
            kept.unpersist()
            store.discard(staged)
        return Outcome(
            batch, landed, counted.filtered(landed), seq=position.seq,
            stage_ms=(written - began) * 1000, publish_ms=(time.monotonic() - written) * 1000,
        )  # fmt: skip

    def _write(self, rows: DataFrame, staged: Path) -> None:
        parts = [str(name) for name in self.sink.partition_by]
        writer = rows.write.format(self.sink.format).options(**_OPTIONS.get(self.sink.format, {})).mode("append")
        (writer.partitionBy(*parts) if parts else writer).save(f"file://{staged}")

    def _position(
        self, at: Position | None, seq: int, batch: RunningBatch, counts: Totals, through: str | None, attempt: str
    ) -> Position:
        return Position(
            seq=seq,
            query_id=batch.query_id,
            batch=batch.batch,
            generation=self.generation,
            end=dict(batch.end),
            begin=at.begin if at else dict(batch.start),
            topic_ids={**(at.topic_ids if at else {}), **batch.topic_ids},
            totals=(at.totals if at else Totals()).plus(counts),
            attempt=f"{self.stream}/{attempt}",
            complete_through=through or (at.complete_through if at else None),
            at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )

    def _fenced(self, at: Position | None) -> Fenced:
        now = f"seq {at.seq} by {at.attempt}" if at else "none"
        return Fenced(
            f"Stream {self.stream} is landed by somebody else",
            why=f"its position in {self.path} moved under this driver: now {now}",
            next=f"lakeward streams status {self.stream}   shows the driver that holds it",
        )

    def _advised(self, halt: Halt) -> Halt:
        """With a step that there is for a folder: the operations that move a position know tables only."""
        step = "put the checkpoint back from a copy; or give the stream a new id and a new folder"
        return replace(halt, next=f"{step} (conf/streams/{self.stream}.yaml), then: lakeward deploy")
