"""The function that Spark calls in `foreachBatch`: counts, splits, transforms and lands one batch of one stream."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.source import REASON, StreamSource
from lakeward.engine import jvm_errors, late, not_records, rows, transform
from lakeward.engine.flow import SOURCE, Flow
from lakeward.engine.gate import Draining, Gate
from lakeward.engine.one_pass import OnePass, Unproven, suits
from lakeward.engine.references import References
from lakeward.engine.routing import Bad, RowRouter, keep
from lakeward.engine.sinks.base import StreamSink
from lakeward.platform.boundary import attempt
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.text import instant, rfc3339
from lakeward.spec.model.position_columns import INGESTED_AT, POSITION_TYPES
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_log = structlog.get_logger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0


class Interrupted(Exception):
    """Raised inside a batch that hangs, to end it."""


@dataclass(frozen=True)
class FinishedBatch:
    """A finished batch, as it is reported.

    Attributes:
        consumed, quarantined: of this batch.
        late: records of this batch that its table of late records has; None if the stream keeps none.
        complete_through: event time (RFC 3339) up to which the sink is final.
        ended: monotonic, so that its age does not depend on the clock of this host.
    """

    stream: str
    generation: int
    batch_id: int
    outcome: BatchResult
    consumed: int
    quarantined: int
    complete_through: str | None
    ended: float
    duration_s: float
    late: int | None = None


@dataclass(frozen=True)
class Split:
    """The records of a batch, by where they go.

    Attributes:
        good: rows of the transform that land.
        consumed: number of records.
        bad: invalid rows.
        complete: event time (RFC 3339) up to which the sink is final.
        late: late records; None if the stream keeps none.
    """

    good: DataFrame
    consumed: int
    bad: list[Bad]
    complete: str | None = None
    late: list[Bad] | None = None


@dataclass
class BatchFunction:
    """Lands the batches of one start of one stream.

    Args:
        session: the session that starts the query.
        stream, generation: whose batches they are.
        flow: the stream's plan.
        sink: where they land.
        gate: lets batches in, one at a time.
        references: refreshed before a batch that is processed row by row.
        quarantine_table: where invalid rows go; None: the first invalid row fails the batch.
        late_table: where late records go; None: Spark drops them.
        report: receives each finished batch; must not block.
    """

    session: SparkSession
    stream: str
    generation: int
    flow: Flow
    sink: StreamSink
    gate: Gate
    references: References
    quarantine_table: str | None
    late_table: str | None
    report: Callable[[FinishedBatch], None]
    failure: BaseException | None = field(default=None, init=False)
    first_commit: float | None = field(default=None, init=False)
    """When the first batch of this start landed (monotonic). `reset_after` of the restart policy counts from it."""
    failed_batch: RunningBatch | None = field(default=None, init=False)
    """The batch that failed, with its offsets; None if they could not be read."""
    landed: tuple[int, int] = field(default=(0, 0), init=False)
    """Batches and rows of this start, without those that had landed before."""
    one_pass: OnePass = field(init=False)
    """Which batches are landed by one Spark job."""
    _thread: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.one_pass = OnePass(self.flow, possible=self.sink.one_pass and suits(self.flow))

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Land one batch, or raise. Spark commits the batch when this returns."""
        try:
            with (
                self.gate.batch(batch_id),
                self._failures_without_records(batch_id),
                transform.failures_of(self.stream, self.flow.spec),
                self._failures_of_sources(batch_id),
                failpoints.batch(self.stream, batch_id),
            ):
                self._thread = threading.get_ident()
                failpoints.hit("batch-start")
                began = time.monotonic()
                finished = self._with_patience(frame, batch_id, began)
                failpoints.hit("before-return")
        except BaseException as error:
            self.failure = error  # Spark reports the end of the query as text only
            self.failed_batch = self._failed_offsets(batch_id, error)
            raise
        finally:
            self._thread = None
        self.first_commit = self.first_commit or time.monotonic()
        if not finished.outcome.already:
            self.landed = (self.landed[0] + 1, self.landed[1] + finished.outcome.landed)
        self.report(finished)

    @contextmanager
    def _failures_without_records(self, batch_id: int) -> Iterator[None]:
        """Turn a failure that no record can have caused into its error; not while the stream stops."""
        if self.gate.closed:
            yield
            return
        with not_records.failures_of(self.sink, self.session, self.flow.columns, self.stream, batch_id):
            yield

    @contextmanager
    def _failures_of_sources(self, batch_id: int) -> Iterator[None]:
        """Turn a failure that lies in what a source reads into its error."""
        try:
            yield
        except (LakewardError, Draining, Interrupted):
            raise
        except Exception as error:
            batch = self._failed_offsets(batch_id, error)
            text = f"{jvm_errors.of_error(error)}\n{error}"
            if batch is None:
                raise
            for source in self.flow.sources:
                look = partial(
                    source.failed_to_read, self.stream, text, batch.start[source.name], batch.end[source.name]
                )
                # A broker that is away hides no failure.
                found = attempt(f"source {source.name} of a failed batch", look, through=(Interrupted,))
                if isinstance(found, LakewardError):
                    raise found from error
            raise

    def interrupt(self) -> None:
        """Raise `Interrupted` in the thread that runs the batch, as soon as Python runs there again."""
        thread = self._thread
        if thread is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Interrupted))

    def _failed_offsets(self, batch_id: int, error: BaseException) -> RunningBatch | None:
        """The offsets of a failed batch. They can be read only here, inside the query."""
        if isinstance(error, Draining | Interrupted):
            return None
        with suppress(Exception):
            return self.sink.running(batch_id)
        return None

    def _with_patience(self, frame: DataFrame, batch_id: int, began: float) -> FinishedBatch:
        """Repeat the batch while a dependency does not answer: the query does not fail, and continues afterwards."""
        pause, down_since = FIRST_PAUSE_S, None
        while True:
            try:
                finished = self._land(frame, batch_id, began)
            except DependencyDown as error:
                if down_since is None:
                    down_since = time.monotonic()
                    _log.warning("batch waits", stream=self.stream, batch=batch_id, what=error.what, why=error.why)
                self.gate.pause(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2)
                continue
            if down_since is not None:
                waited = round(time.monotonic() - down_since, 1)
                _log.info("batch continues", stream=self.stream, batch=batch_id, waited_s=waited)
            return finished

    def _land(self, frame: DataFrame, batch_id: int, began: float) -> FinishedBatch:
        if not self.flow.stateful and INGESTED_AT not in frame.columns:  # records that are read again have it
            frame = frame.withColumn(INGESTED_AT, self._same_code(self._batch_time(), SOURCE))
        checked = [source for source in self.flow.sources if source.checked]
        batch = self.sink.running(batch_id) if checked or self.one_pass.due else None
        if batch is not None:
            for source in checked:
                source.committed(self.stream, batch.start[source.name])
                source.before_reading(self.stream, batch.start[source.name], batch.end[source.name])

        def check_read() -> None:
            if batch is not None and checked:
                listed = offsets.files_read(offsets.execution_of(self.session, self.stream))
                for source in checked:
                    source.before_landing(self.stream, batch.start[source.name], batch.end[source.name], listed)

        if batch is not None and self.one_pass.due:
            try:
                observed = self.one_pass.route(frame, batch)
                outcome = self.sink.land(observed.good, batch_id, observed, check_read if checked else None, None)
                return self._finished(batch_id, began, outcome, outcome.counts.consumed)
            except Unproven as why:
                _log.info("batch counted by queries", stream=self.stream, batch=batch_id, why=str(why))
                self.one_pass.failed()
        with ExitStack() as held:
            shape = self._with_state if self.flow.stateful else self._by_row
            split = shape(frame, batch_id, held)
            quarantined = sum(number for _, number, _ in split.bad)
            if quarantined and self.quarantine_table is None:
                raise self._no_quarantine(split.bad)
            late_ones = split.late or []

            def before_publish() -> None:
                check_read()
                self._insert(split.bad, self.quarantine_table, batch_id, "rows quarantined")
                self._insert(late_ones, self.late_table, batch_id, "late records kept")

            known = not self.flow.stateful or all(source.replays for source in self.flow.sources)
            outcome = self.sink.land(
                split.good,
                batch_id,
                Counted(split.consumed if known else None, quarantined, traced=self.flow.lineage == "rows"),
                before_publish if checked or any(number for _, number, _ in [*split.bad, *late_ones]) else None,
                split.complete,
            )
            if outcome.already:  # perhaps by a generation that kept none; what is there is not inserted again
                self._insert(late_ones, self.late_table, batch_id, "late records kept")
        return self._finished(batch_id, began, outcome, split.consumed, quarantined, split)

    def _insert(self, rejected: list[Bad], table: str | None, batch_id: int, words: str) -> None:
        for kept, number, identity in rejected:
            if number and table is not None:
                quarantine.insert(kept, table, self.stream, identity, self.generation)
                _log.info(words, stream=self.stream, batch=batch_id, rows=number)

    def _finished(
        self,
        batch_id: int,
        began: float,
        outcome: BatchResult,
        consumed: int,
        quarantined: int = 0,
        split: Split | None = None,
    ) -> FinishedBatch:
        return FinishedBatch(
            stream=self.stream,
            generation=self.generation,
            batch_id=batch_id,
            outcome=outcome,
            consumed=consumed,
            quarantined=quarantined,
            complete_through=split.complete if split is not None else None,
            ended=time.monotonic(),
            duration_s=time.monotonic() - began,
            late=None if split is None or split.late is None else sum(number for _, number, _ in split.late),
        )

    def _by_row(self, raw: DataFrame, batch_id: int, held: ExitStack) -> Split:
        """Decode, transform and split the records, which are read once."""
        routed = self._router.by_row(raw, self.references.frames(raw.sparkSession), held)
        self.one_pass.counted(clean=not routed.doubtful and not any(number for _, number, _ in routed.bad))
        return Split(routed.good, routed.consumed, routed.bad)

    @property
    def _router(self) -> RowRouter:
        return RowRouter(self.stream, self.flow)

    def _with_state(self, result: DataFrame, batch_id: int, held: ExitStack) -> Split:
        """Split the result of the streaming plan; read the records again to count them and find those that fail, or
        that the plan drops as late."""
        session = result.sparkSession
        batch = self.sink.running(batch_id)
        consumed, bad = 0, list[Bad]()
        dropped: list[Bad] | None = None if self.late_table is None else []

        def read(decoded: DataFrame) -> DataFrame:
            # Cached only where the late ones are found among them: else they are read once.
            return decoded if self.late_table is None else keep(decoded, held)

        for source in self.flow.sources:
            start, end = batch.start[source.name], batch.end[source.name]
            if start == end or not source.replays:
                continue
            again = source.again(session, start, end)
            if source.spec.max_ahead is not None or self.late_table is not None:
                # judged by the clock of the streaming plan, not by a later one
                again = again.withColumn(INGESTED_AT, self._batch_time())
            decoded = read(source.decode_fast(again))
            all_rows, bad_rows = tally(decoded, REASON)
            if bad_rows and source.decodes_twice:
                decoded = read(source.decode(again))
                all_rows, bad_rows = tally(decoded, REASON)
            consumed += all_rows
            if bad_rows:
                bad.append((rows.undecoded(source, decoded), bad_rows, source.identity))
            if dropped is not None:
                dropped.append(self._late(source, again, decoded, held))
        joined = self.flow.lineage == "rows" and self.flow.joins
        if joined and not self.flow.spec.rules:
            result = keep(result, held)  # the plan changes the state, so it must run once
        good, broken, rows_out = self._router.judge(result, held)
        if joined:
            self._router.one_to_one(good, consumed, rows_out)
        return Split(good, consumed, bad + broken, self._watermark(), dropped)

    def _late(self, source: StreamSource, raw: DataFrame, decoded: DataFrame, held: ExitStack) -> Bad:
        """The records that the streaming plan drops as late in this batch. One job finds out that there is none."""
        mark = late.watermark_of(offsets.execution_of(self.session, self.stream))
        found = keep(late.find(decoded, source, self.flow.spec, mark), held)
        if not tally(found)[0]:
            return found, 0, source.identity
        records = keep(late.records_of(found, raw, source, mark), held)
        return records, tally(records)[0], source.identity

    def _batch_time(self) -> Column:
        """The time of this batch, which its checkpoint keeps: `current_timestamp` of the streaming plan."""
        from pyspark.sql import functions as F

        execution: Any = offsets.execution_of(self.session, self.stream)
        return F.timestamp_millis(F.lit(int(execution.lastExecution().offsetSeqMetadata().batchTimestampMs())))

    @staticmethod
    def _same_code(value: Column, of_each_row: str) -> Column:
        """A constant of the batch that Spark does not write into the code it generates.

        Otherwise the code would be compiled again in each batch, and Java would run it without what it learned before.
        An element of an array is an object that the code refers to. Its index depends on a column: Spark's optimizer
        would replace the element by the constant.
        """
        from pyspark.sql import functions as F

        index = F.pmod(F.hash(F.col(of_each_row)), F.lit(1))
        return F.coalesce(F.get(F.array(value), index), F.timestamp_millis(F.lit(0)))  # never null, also for the plan

    def _watermark(self) -> str | None:
        """The watermark of this batch: windows that end before it are final."""
        execution: Any = offsets.execution_of(self.session, self.stream)
        millis = execution.lastExecution().offsetSeqMetadata().batchWatermarkMs()
        if millis <= 0:
            return None
        return rfc3339(instant(millis))

    def _no_quarantine(self, bad: list[Bad]) -> SpecError:
        total = sum(number for _, number, _ in bad)
        first = next(frame for frame, number, _ in bad if number).first()
        where = {name: value for name, value in first.asDict().items() if name in POSITION_TYPES} if first else {}
        return SpecError(
            f"Stream {self.stream}: {total} invalid rows and no quarantine table configured",
            why=f"the first failed {first['reason'] if first else ''}: {first['error'] if first else ''}, at {where}",
            next="add quarantine: {table: namespace.table} to the stream's file, then: lakeward deploy",
            code="LW-2202",
        )
