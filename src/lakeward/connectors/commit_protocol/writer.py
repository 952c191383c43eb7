"""`TableWriter`: lands the batches of one stream in one table, each exactly once, for every table format.

Step 1 reads the table and the running batch, and decides. Step 2 stages the rows. Step 3 publishes them with the
position. Every failure after the decision returns to step 1, which reads the table again. See docs: "Landing exactly
once". A format implements reading, staging and publishing; the order of the steps, the fence and the counts are here.
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
from lakeward.connectors.commit_protocol.batch import Counted, Counting, RunningBatch
from lakeward.connectors.commit_protocol.follow import AlreadyLanded, BlockReason, Decision, Land, follow
from lakeward.connectors.commit_protocol.position import Position, Totals, totals_of
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.platform.errors import DependencyDown, Fenced, Transient
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = structlog.get_logger(__name__)


class Read(Protocol):
    """A table as step 1 read it: `raw` is the text that the compare-and-set compares, `position` is `raw` parsed."""

    @property
    def raw(self) -> str | None: ...
    @property
    def position(self) -> Position | None: ...


class Written(Protocol):
    """Staged rows, which no reader sees yet, with the id of the attempt that wrote them."""

    @property
    def attempt(self) -> str: ...
    @property
    def rows(self) -> int: ...


R = TypeVar("R", bound=Read)
W = TypeVar("W", bound=Written)


@dataclass
class TableWriter(ABC, Generic[R, W]):
    """Lands one stream in one table. Each start of the query needs a new writer: it remembers what it published.

    Args:
        session: the session that starts the query.
        stream, table: ids; `table` is `namespace.table` of the lake.
        query_name: the name of the query.
        sources: the stream's source names.
        generation: the accepted spec that runs.
        canonical: source name -> canonical form of its offsets; default: JSON with sorted keys.
        topic_ids: topic -> id in the broker; called once a batch, between staging and publishing.
        stateful: whether the query keeps state. None (not known) is treated as stateful.
        patience_s: how long the writer waits during an outage of the catalog before it raises `DependencyDown`; 0 if
            the caller waits and calls `land` again with the same batch.
        stopping: called while waiting; True ends the wait.
        planned: returns the batch of a number if no query runs it.
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
    _own_attempts: deque[str] = field(default_factory=lambda: deque(maxlen=4 * ATTEMPTS), init=False, repr=False)
    _expected: str | None = field(default=None, init=False, repr=False)
    _began: bool = field(default=False, init=False, repr=False)
    _batch: int = field(default=-1, init=False, repr=False)
    _staged_counts: dict[str, tuple[Counted, Totals]] = field(default_factory=dict, init=False, repr=False)

    @property
    @abstractmethod
    def mode(self) -> str:
        """The sink's mode: append, upsert or complete."""

    @property
    @abstractmethod
    def history(self) -> str:
        """Where a person finds the writers of the table, as the end of a sentence."""

    @abstractmethod
    def load(self, session: SparkSession) -> R:
        """Read the table, without a cache.

        Raises:
            DependencyDown: the catalog or database does not answer.
            Blocked: there is no such table (`table-missing`).
        """

    @abstractmethod
    def check(self, state: R) -> BlockReason | None:
        """What blocks every batch; None if nothing does."""

    @abstractmethod
    def stage(self, rows: DataFrame, state: R, attempt: str) -> W:
        """Write the rows under the attempt's id, invisible to readers.

        Raises:
            RetryCommit: the table changed during the write; the batch is staged again.
        """

    @abstractmethod
    def publish(self, state: R, staged: W, batch: RunningBatch, build: Build) -> Position:
        """Make the rows visible and move the position in one commit, if the table is still as it was checked.

        Raises:
            RetryCommit: the table changed, or the answer was lost.
        """

    def execute(self, rows: DataFrame) -> None:
        """Run the query of a batch without writing its rows anywhere."""
        rows.write.format("noop").mode("overwrite").save()

    def trial(self, rows: DataFrame) -> None:
        """Write rows as those of a batch, and never publish them: no reader sees them, and maintenance removes their
        files.

        Raises:
            Blocked: what blocks every batch.
            Exception: of the write.
        """
        try:
            state = self.load(rows.sparkSession)
            reason = self.check(state)
            if reason is not None:
                raise reason.error()
            self.stage(rows, state, new_attempt(self.stream, 0))
        finally:
            self.release()

    def release(self) -> None:
        """Release the resources of one call of `land`: called at its end, also after an error."""

    def decide(self, state: R, batch: RunningBatch) -> Decision:
        """Decide about `batch` by the table's state."""
        return self.check(state) or follow(self.stream, self.table, state.position, batch)

    def expect(self, raw: str | None) -> None:
        """Set the position that the preflight of the query's checkpoint read.

        If the first batch reads another position, another writer has moved it and this driver is fenced. Otherwise it
        would take its own checkpoint for an older copy, and block the stream of the driver that lands it.
        """
        self._began, self._expected = True, raw

    def running(self, batch_id: int) -> RunningBatch:
        """The batch the query is running; must be called inside `foreachBatch`."""
        if self.planned is not None:
            return self.planned(batch_id)
        execution = offsets.execution_of(self.session, self.query_name)
        return offsets.running_batch(execution, batch_id, self.sources, self.canonical, {})

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        *,
        counted: Counting | None = None,
        before_publish: Callable[[], None] | None = None,
        complete_through: str | None = None,
    ) -> BatchResult:
        """Land one batch. Safe to call again with the same batch, by this process or any other.

        Args:
            rows: the rows to land, columns by name.
            batch_id: the batch number from Spark.
            counted: records consumed and quarantined. It is evaluated when the rows are staged.
            before_publish: called for a new batch before anything is visible: the quarantine insert.
            complete_through: event time up to which the table is final with this batch.

        Raises:
            Blocked: continuing could lose or duplicate rows; a person decides (`reason`, exact ranges, next command).
            Fenced: another writer moved the stream's position while this process was landing it.
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
        counting: Counting,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Step 1, repeated after every failure that may be retried."""
        batch = self.running(batch_id)
        if batch_id != self._batch:
            self._batch, self._staged_counts = batch_id, {}
        for attempt in range(1, ATTEMPTS + 1):
            state = self._read_with_patience(rows.sparkSession)
            decision = self.decide(state, batch)
            if isinstance(decision, BlockReason):
                raise decision.error()
            if isinstance(decision, AlreadyLanded):
                return self._already(rows, batch, decision.position, counting)
            try:
                return self._write(rows, batch, state, decision, counting, before_publish, complete_through)
            except SourceUnavailable:
                raise
            except DependencyDown as down:
                why = down.why  # the next read waits until the catalog is back
            except RetryCommit as retry:
                why = str(retry)
            _log.info("batch retried", stream=self.stream, batch=batch_id, attempt=attempt, why=why)
            pause(attempt)
        raise self.contention(batch_id, why)

    def _with_topic_ids(self, state: R, batch: RunningBatch) -> RunningBatch:
        """The batch with the ids of its topics, which are read after its rows: so a topic that was recreated just
        before is not taken for the old one.

        Raises:
            SourceUnavailable: the broker does not answer.
            Blocked: a topic has another id than the position.
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
        """The error for a table that changed during every attempt."""
        return Transient(
            f"Batch {batch} of stream {self.stream} was not landed in {self.table}: contention",
            why=f"the table changed during each of {ATTEMPTS} attempts; last: {why}",
            next=f"look for other writers {self.history}",
            code="LW-3024",
        )

    def _read_with_patience(self, session: SparkSession) -> R:
        """Step 1's read. During an outage of the catalog it waits: no row is lost, and the stream does not restart.

        Raises:
            DependencyDown: the catalog did not answer for `patience_s`, or the driver is stopping.
        """
        began = time.monotonic()
        logged = False
        while True:
            try:
                return self._read(session)
            except DependencyDown as down:
                if time.monotonic() - began > self.patience_s or self.stopping():
                    raise
                if not logged:
                    _log.warning("catalog unreachable", stream=self.stream, why=down.why)
                logged = True
            time.sleep(0.5)

    def _read(self, session: SparkSession) -> R:
        """Step 1's read, and the fence: no other writer may move the position between two batches of this one."""
        state = self.load(session)
        own = state.position is not None and state.position.attempt in self._own_attempts
        if self._began and state.raw != self._expected and not own:
            raise self.fenced(state) if state.raw is not None else self._removed(state).error()
        self._began, self._expected = True, state.raw
        return state

    def _removed(self, state: R) -> BlockReason:
        """The block reason of a position that is gone: a writer raises a position, and never removes one."""
        found = self.check(state)
        if found is not None and found.reason == "no-position":
            return found
        return BlockReason(
            "no-position",
            f"The position of stream {self.stream} is gone from {self.table}, where this driver has read it",
            "the table was dropped and created again, or the position was removed; nothing lands until a person acts",
            f"give the stream a new id and a new table (conf/streams/{self.stream}.yaml), then: lakeward deploy",
            code="LW-3077",
        )

    def fenced(self, state: Read) -> Fenced:
        """The error for a position that another writer moved."""
        at = f"at seq {state.position.seq} by attempt {state.position.attempt}" if state.position else "absent"
        return Fenced(
            f"Stream {self.stream}: fenced. Another writer moved its position in {self.table}",
            why=f"the position is now {at}; this driver did not write it",
            next=f"lakeward streams status {self.stream}   shows the driver that has the lease",
            code="LW-3025",
        )

    def _already(self, rows: DataFrame, batch: RunningBatch, position: Position, counting: Counting) -> BatchResult:
        """The table has the batch: from an earlier run, or from an attempt of this run whose answer was lost."""
        own = self._staged_counts.get(position.attempt)
        if not self._staged_counts and self.stateful is not False:
            # The state store commits when the rows are executed: without that the query would fail at every restart.
            self.execute(rows)
        _log.info("batch already landed", stream=self.stream, batch=batch.batch, seq=position.seq)
        unwritten = counting if isinstance(counting, Counted) else Counted()
        counted, counts = own or (unwritten, Totals())
        return BatchResult(
            batch=batch,
            counts=counts,
            filtered=counted.filtered(counts.landed),
            seq=position.seq,
            snapshot=position.snapshot,
            totals=position.totals,
            already=own is None,
            position=position,
        )

    def _write(
        self,
        rows: DataFrame,
        batch: RunningBatch,
        state: R,
        land: Land,
        counting: Counting,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Steps 2 and 3."""
        failpoints.hit("after-check")
        counting.before()
        began = time.monotonic()
        attempt = new_attempt(self.stream, land.seq)
        self._own_attempts.append(attempt)
        staged = self.stage(rows, state, attempt)
        failpoints.hit("after-stage")
        before = state.position.totals if state.position else Totals()
        counted = counting.after(staged.rows)
        counts = totals_of(counted, staged.rows)
        self._staged_counts[staged.attempt] = counted, counts
        if staged.rows == 0 and not batch.advances and state.position is not None and not counts.quarantined:
            # The staged snapshot stays unreferenced; expiry removes it.
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
        batch = self._with_topic_ids(state, batch)
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
        self._expected = position.to_json()
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
