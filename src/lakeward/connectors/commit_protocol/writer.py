"""`TableWriter`: lands the batches of one stream in one table, each exactly once, whatever the table's format.

1. read the table and the running batch, and decide; 2. stage the rows; 3. publish them with the position. Whatever goes
wrong after the decision leads back to step 1, which finds out what is true. See docs: "Landing exactly once". A format
says how it reads, stages and publishes; the order of things, the fence and the counting are here, once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import structlog

from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.commit_protocol.attempt import (
    ATTEMPTS,
    Build,
    RetryCommit,
    SourceUnavailable,
    new_attempt,
    pause,
)
from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.follow import AlreadyLanded, BlockReason, Decision, Land, follow
from lakeward.connectors.commit_protocol.position import Position, Totals, totals_of
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.platform.errors import DependencyDown, Fenced, Transient
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = structlog.get_logger(__name__)


class Read(Protocol):
    """A table as step 1 saw it: `raw` is what the compare-and-set compares, `position` the same, parsed."""

    @property
    def raw(self) -> str | None: ...
    @property
    def position(self) -> Position | None: ...


class Written(Protocol):
    """Rows that nobody sees yet, under the id of the attempt that wrote them."""

    @property
    def attempt(self) -> str: ...
    @property
    def rows(self) -> int: ...


R = TypeVar("R", bound=Read)
W = TypeVar("W", bound=Written)


@dataclass
class TableWriter(ABC, Generic[R, W]):
    """Lands one stream in one table. Make a new one for every start of the query: it remembers what it published.

    Args:
        session: the session that starts the query.
        stream, table: ids; `table` is `namespace.table` of the lake.
        query_name: the name the query runs under.
        sources: the stream's source names.
        generation: the accepted spec that runs.
        canonical: source name -> canonical form of its offsets; default: JSON with sorted keys.
        topic_ids: topic -> id in the broker, asked once a batch, when its rows were read and nobody sees them yet.
        stateful: whether the query keeps state. None: not known, treated as stateful.
        patience_s: how long an outage of the catalog is waited out here before `DependencyDown` is raised; 0 where
            the caller waits itself and calls `land` again with the same batch.
        stopping: asked while waiting; True ends the wait.
        planned: gives the batch of a number where no query runs it.
    """

    session: SparkSession
    stream: str
    table: str
    query_name: str
    sources: Sequence[str] = ("source",)
    generation: int = 0
    canonical: Mapping[str, offsets.Canonical] = field(default_factory=dict)
    topic_ids: Callable[[], Mapping[str, str]] = dict
    stateful: bool | None = None
    patience_s: float = 0.0
    stopping: Callable[[], bool] = lambda: False
    planned: Callable[[int], RunningBatch] | None = None
    _ours: deque[str] = field(default_factory=lambda: deque(maxlen=4 * ATTEMPTS), init=False, repr=False)
    _seen: str | None = field(default=None, init=False, repr=False)
    _began: bool = field(default=False, init=False, repr=False)
    _batch: int = field(default=-1, init=False, repr=False)
    _tried: dict[str, Totals] = field(default_factory=dict, init=False, repr=False)

    @property
    @abstractmethod
    def mode(self) -> str:
        """The sink's word for what a batch does to the table."""

    @property
    @abstractmethod
    def history(self) -> str:
        """Where a person finds who wrote the table, as words that end a sentence."""

    @abstractmethod
    def load(self, session: SparkSession) -> R:
        """The table, read afresh.

        Raises:
            DependencyDown: whoever knows the table does not answer.
            Blocked: there is no such table (`table-missing`).
        """

    @abstractmethod
    def check(self, state: R) -> BlockReason | None:
        """What blocks whatever the batch."""

    @abstractmethod
    def stage(self, rows: DataFrame, state: R, attempt: str) -> W:
        """Write the rows so that nobody sees them yet, under the attempt's id.

        Raises:
            Redo: the table changed under it; it is to be done again.
        """

    @abstractmethod
    def publish(self, state: R, staged: W, batch: RunningBatch, build: Build) -> Position:
        """Make the rows visible and move the position, both or neither, if the table is still as it was checked.

        Raises:
            Redo: it is not, or the answer was lost.
        """

    def execute(self, rows: DataFrame) -> None:
        """Run the query of a batch without writing its rows anywhere."""
        rows.write.format("noop").mode("overwrite").save()

    def release(self) -> None:
        """Let go of what one call of `land` held: called at its end, however it ends."""

    def decide(self, state: R, batch: RunningBatch) -> Decision:
        """What to do with `batch`, given the table."""
        return self.check(state) or follow(self.stream, self.table, state.position, batch)

    def expect(self, raw: str | None) -> None:
        """The position as it was when the query's checkpoint was judged.

        Another one at the first batch is somebody else's doing: this driver is fenced, instead of taking its own
        checkpoint for an older copy and blocking the stream under the driver that lands it.
        """
        self._began, self._seen = True, raw

    def running(self, batch_id: int) -> RunningBatch:
        """The batch the query is running; call it from inside `foreachBatch`."""
        if self.planned is not None:
            return self.planned(batch_id)
        execution = offsets.execution_of(self.session, self.query_name)
        return offsets.running_batch(execution, batch_id, self.sources, self.canonical, {})

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        *,
        counted: Counted | None = None,
        before_publish: Callable[[], None] | None = None,
        complete_through: str | None = None,
    ) -> BatchResult:
        """Land one batch. Safe to call again with the same batch, by this process or any other.

        Args:
            rows: what goes into the table, columns by name.
            batch_id: as Spark gave it.
            counted: records consumed and quarantined.
            before_publish: runs when the batch is known to be new, before anything is visible: the quarantine insert.
            complete_through: event time up to which the table is final with this batch.

        Raises:
            Blocked: going on could lose or double rows; a person decides (`reason`, exact ranges, next command).
            Fenced: somebody else moved the stream's position while this process was landing it.
            Transient: the table kept changing (`contention`), or the catalog does not answer (`DependencyDown`).
        """
        try:
            return self._land(rows, batch_id, counted or Counted(), before_publish, complete_through)
        finally:
            self.release()

    def _land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Step 1, and whatever leads back to it."""
        batch = self.running(batch_id)
        if batch_id != self._batch:
            self._batch, self._tried = batch_id, {}
        for attempt in range(1, ATTEMPTS + 1):
            state = self._read_when_it_answers(rows.sparkSession)
            decision = self.decide(state, batch)
            if isinstance(decision, BlockReason):
                raise decision.error()
            if isinstance(decision, AlreadyLanded):
                return self._already(rows, batch, decision.position, counted)
            try:
                return self._write(rows, batch, state, decision, counted, before_publish, complete_through)
            except SourceUnavailable:
                raise
            except DependencyDown as down:
                why = down.why  # the next reading waits until the catalog is back
            except RetryCommit as redo:
                why = str(redo)
            _log.info("trying the batch again", stream=self.stream, batch=batch_id, attempt=attempt, why=why)
            pause(attempt)
        raise self.contention(batch_id, why)

    def _of_the_same_topics(self, state: R, batch: RunningBatch) -> RunningBatch:
        """The batch with the ids of the topics it was read from: asked when it is read, so that a topic made anew a
        moment before is not taken for the old one.

        Raises:
            SourceAway: the broker does not answer.
            Blocked: a topic is another than the one that was landed from.
        """
        try:
            known = replace(batch, topic_ids=dict(self.topic_ids()))
        except DependencyDown as down:
            raise SourceUnavailable(down.what, why=down.why, next=down.next, code=down.code) from down
        decision = self.decide(state, known)
        if isinstance(decision, BlockReason):
            raise decision.error()
        return known

    def contention(self, batch: int, why: str) -> Transient:
        """The error for a table that never holds still."""
        return Transient(
            f"Batch {batch} of stream {self.stream} could not be landed in {self.table}: contention",
            why=f"{ATTEMPTS} attempts met a table that had changed; last: {why}",
            next=f"look for other writers {self.history}",
            code="LW-3024",
        )

    def _read_when_it_answers(self, session: SparkSession) -> R:
        """Step 1's reading; an outage of the catalog is waited out: nothing is lost by it, no stream restarts for it.

        Raises:
            DependencyDown: it did not answer for `patience_s`, or the driver is stopping.
        """
        began = time.monotonic()
        told = False
        while True:
            try:
                return self._read(session)
            except DependencyDown as down:
                if time.monotonic() - began > self.patience_s or self.stopping():
                    raise
                if not told:
                    _log.warning("the catalog does not answer; waiting", stream=self.stream, why=down.why)
                told = True
            time.sleep(0.5)

    def _read(self, session: SparkSession) -> R:
        """Step 1's reading, and the fence: between our own batches nobody else may move the position."""
        state = self.load(session)
        ours = state.position is not None and state.position.attempt in self._ours
        if self._began and state.raw != self._seen and not ours:
            raise self.fenced(state)
        self._began, self._seen = True, state.raw
        return state

    def fenced(self, state: Read) -> Fenced:
        """The error for a position that somebody else moved."""
        at = f"seq {state.position.seq} by attempt {state.position.attempt}" if state.position else "none"
        return Fenced(
            f"Stream {self.stream} is landed by somebody else",
            why=f"its position in {self.table} moved under this driver: now {at}",
            next=f"lakeward streams status {self.stream}   shows the driver that holds it",
            code="LW-3025",
        )

    def _already(self, rows: DataFrame, batch: RunningBatch, position: Position, counted: Counted) -> BatchResult:
        """The table has it: from an earlier run, or from this very one, whose answer was lost."""
        now = self._tried.get(position.attempt)
        if not self._tried and self.stateful is not False:
            # The state store commits by being executed: skipping the rows would fail the query at every restart.
            self.execute(rows)
        _log.info("the table has this batch already", stream=self.stream, batch=batch.batch, seq=position.seq)
        counts = now or Totals()
        return BatchResult(
            batch=batch,
            counts=counts,
            filtered=counted.filtered(counts.landed),
            seq=position.seq,
            snapshot=position.snapshot,
            totals=position.totals,
            already=now is None,
            position=position,
        )

    def _write(
        self,
        rows: DataFrame,
        batch: RunningBatch,
        state: R,
        land: Land,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Steps 2 and 3."""
        failpoints.hit("after-check")
        began = time.monotonic()
        attempt = new_attempt(self.stream, land.seq)
        self._ours.append(attempt)
        staged = self.stage(rows, state, attempt)
        failpoints.hit("after-stage")
        before = state.position.totals if state.position else Totals()
        counts = totals_of(counted, staged.rows)
        self._tried[staged.attempt] = counts
        if staged.rows == 0 and not batch.advances and state.position is not None and not counts.quarantined:
            # What was staged stays behind unreferenced; expiry takes it.
            return BatchResult(
                batch=batch,
                counts=counts,
                filtered=counted.filtered(counts.landed),
                seq=state.position.seq,
                totals=before,
                written=False,
                stage_ms=_ms_since(began),
                position=state.position,
            )
        batch = self._of_the_same_topics(state, batch)
        if before_publish is not None:
            before_publish()
            failpoints.hit("after-quarantine")
        staged_at = time.monotonic()
        topics = {**(state.position.topic_ids if state.position else {}), **batch.topic_ids}

        def build(snapshot: int | None, snapshot_seq: int) -> Position:
            known = state.position.complete_through if state.position else None
            return Position(
                seq=land.seq,
                query_id=batch.query_id,
                batch=batch.batch,
                generation=self.generation,
                end=dict(batch.end),
                begin=state.position.begin if state.position else dict(batch.start),
                skips=state.position.skips if state.position else (),
                topic_ids=topics,
                snapshot=snapshot,
                snapshot_seq=snapshot_seq,
                totals=before.plus(counts),
                attempt=staged.attempt,
                complete_through=complete_through or known,
                added=state.position.added if state.position else {},
                mode=self.mode,
                at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            )

        position = self.publish(state, staged, batch, build)
        self._seen = position.to_json()
        failpoints.hit("after-land")
        return BatchResult(
            batch=batch,
            counts=counts,
            filtered=counted.filtered(counts.landed),
            seq=position.seq,
            snapshot=position.snapshot,
            totals=position.totals,
            stage_ms=(staged_at - began) * 1000,
            publish_ms=_ms_since(staged_at),
            position=position,
        )


def _ms_since(began: float) -> float:
    return (time.monotonic() - began) * 1000
