"""Replay of a stream's quarantine: process quarantined records again with the current generation.

The records go through the same decoding, transform and rules as a batch, in a separate session, beside the running
stream. Valid rows land in the sink; the exactly-once steps are described in `connectors.iceberg.replay`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, TypedDict, cast

import structlog

from lakeward.connectors import source_types
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, pause
from lakeward.connectors.commit_protocol.replay import Replayed
from lakeward.connectors.decode.json import KEPT_BYTES
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.iceberg import replay as acts
from lakeward.connectors.iceberg.change import Upsert
from lakeward.connectors.iceberg.check import check_table
from lakeward.connectors.iceberg.qualified import in_lake, prefix
from lakeward.connectors.iceberg.quarantine import Kept
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.source import VALUE, StreamSource
from lakeward.engine import flow, quarantined, session
from lakeward.engine.references import References
from lakeward.engine.routing import RoutedRows, RowRouter, keep
from lakeward.engine.sinks.choose import choose
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.operations.left import Left
from lakeward.operations.replay.eligibility import NotReplayable, suited, traced
from lakeward.platform.errors import Refused, expect_type
from lakeward.spec.model.position_columns import INGESTED_AT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.platform.runtime import Runtime

_log = structlog.get_logger(__name__)

LANDED, FILTERED, PRESENT = "landed", "filtered", "present"
_WHY, _GOOD, _THERE, _BAD = "_lw_why", "_lw_good", "_lw_there", "_lw_still_bad"
_SAMPLES = 3


class StillFailing(TypedDict):
    """Records that still fail, with some of the errors."""

    reason: str
    count: int
    errors: list[str]


@dataclass(frozen=True)
class Report:
    """Result of a replay.

    Attributes:
        stream, generation, table, quarantine: the stream, its generation, target and source table.
        found: records read.
        landed: records that are rows of the table now.
        filtered: records that the transform drops now.
        present: records that the table already had.
        failing: `{reason, count, errors}` of records that still fail, with some of the errors.
        left: `{why, count}` of records that cannot be replayed.
        seq: of the replay's commit; None if nothing was committed.
        dry_run: nothing was changed; the figures are those of the plan.
    """

    stream: str
    generation: int
    table: str
    quarantine: str
    found: int = 0
    landed: int = 0
    filtered: int = 0
    present: int = 0
    failing: list[StillFailing] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    seq: int | None = None
    dry_run: bool = False


def replay(
    spark: SparkSession, assignment: Assignment, runtime: Runtime, *, reason: str | None = None, dry_run: bool = False
) -> Report:
    """Land the records of a stream's quarantine that are valid now, each exactly once.

    Args:
        spark: a session with the lake's catalog.
        assignment: the stream's current generation.
        reason: only rows with this reason.
        dry_run: change nothing.

    Raises:
        Refused: the stream's rows cannot be replayed, or another replay runs.
        SpecError: the generation does not fit its table or its records.
        Blocked: the table was rolled back, replaced or dropped.
        Transient: a table kept changing, or the catalog does not answer.
    """
    spec = assignment.spec
    suited(spec)
    quarantine_table, into = str(spec.quarantine.table) if spec.quarantine else "", str(spec.sink.label)
    report = Report(assignment.stream, assignment.generation, into, quarantine_table, dry_run=dry_run)
    own = session.for_stream(spark, spec)
    if not quarantined.exists(own, spec):
        return report
    if quarantine.lacking(own, quarantine_table):
        if dry_run:
            raise Refused(
                f"Quarantine table {quarantine_table} has the columns of an earlier version",
                why="a dry run changes nothing, so it cannot add the missing columns",
                next=f"lakeward streams restart {assignment.stream}   adds them; a replay without --dry-run does too",
                code="LW-2049",
            )
        quarantine.create(own, quarantine_table)
    (source,) = source_types.of(spec, runtime)
    chosen = choose(own, assignment, runtime, dict, lambda: None, {source.name: source.canonical})
    sink = expect_type(chosen, IcebergStreamSink, "the sink")
    references = References(assignment.stream, spec.reference, runtime)
    try:
        built = flow.build(own, spec, [source], references.frames(own), flow.Start("fresh", fresh=True))
        traced(spec, built)
        sink.adopt_columns(built.columns)
        if isinstance(sink.writer.change, Upsert):
            sink.writer.change = replace(sink.writer.change, ties=False)
        act = _ReplayRun(
            own,
            assignment,
            source,
            sink,
            RowRouter(assignment.stream, built),
            references,
            quarantine_table,
            reason,
            report,
        )
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            try:
                return act.once()
            except RetryCommit as redo:
                _log.info("replay retried", stream=assignment.stream, why=str(redo))
        raise sink.writer.contention(-1, "other commits came first, every time")
    finally:
        references.release()


@dataclass(frozen=True)
class _ReplayRun:
    """One replay, ready to be tried."""

    own: SparkSession
    assignment: Assignment
    source: StreamSource
    sink: IcebergStreamSink
    sorter: RowRouter
    references: References
    quarantine_table: str
    reason: str | None
    report: Report

    @property
    def identity(self) -> list[str]:
        """The columns that identify a record."""
        return list(self.source.identity)

    def once(self) -> Report:
        """One attempt, from reading to settling.

        Raises:
            RetryCommit: a table changed meanwhile, and everything has to be read again.
        """
        from pyspark.sql import functions as F

        at = acts.read_state(self.own, self.report.table, self.assignment.stream)
        halt = check_table(at.state, prefix(self.own, at.state.table))
        if halt is not None:
            raise halt.error()
        if not self.report.dry_run:
            acts.settle(self.own, self.quarantine_table, at)
        with ExitStack() as held:
            rows = acts.pending(self.own, self.quarantine_table, at)
            if self.reason is not None:
                rows = rows.where(F.col(quarantine.REASON) == self.reason)
            rows = keep(rows.dropDuplicates([quarantine.SOURCE, *self.identity]).withColumn(_WHY, self._why(at)), held)
            counts = {cell[_WHY]: int(cell["count"]) for cell in rows.groupBy(_WHY).count().collect()}
            report = replace(
                self.report,
                found=sum(counts.values()),
                left=[
                    {"why": reason.text, "count": counts[reason.value]}
                    for reason in NotReplayable
                    if reason.value in counts
                ],
            )
            if None not in counts:
                return report
            # Checkpointed rows, not a lazy plan, here and below: reading a table again would see later changes.
            records = rows.where(F.col(_WHY).isNull()).localCheckpoint(eager=True)
            sorted_ = self.sorter.by_row(self._raw(records), self.references.frames(self.own), held)
            good = keep(sorted_.good, held)
            claims = self._claims(records, good, sorted_).localCheckpoint(eager=True)
            became = {group[0]: int(group[1]) for group in claims.groupBy(quarantine.BECAME).count().collect()}
            report = replace(
                report,
                landed=became.get(LANDED, 0),
                filtered=became.get(FILTERED, 0),
                present=became.get(PRESENT, 0),
                failing=_failing(sorted_),
            )
            claims = claims.where(F.col(quarantine.BECAME).isNotNull())
            if self.report.dry_run or not report.landed + report.filtered + report.present:
                return report
            return replace(report, seq=self._write(at, good, claims, report))

    def _write(self, at: acts.ReplayState, good: DataFrame, claims: DataFrame, report: Report) -> int:
        """The four steps: begin, claim, publish, settle."""
        from pyspark.sql import functions as F

        begun = acts.begin(self.own, at, self.assignment.generation)
        acts.claim(self.own, claims, self.quarantine_table, begun, self.identity)
        staged, writer = None, self.sink.writer
        if report.landed:
            landed = claims.where(F.col(quarantine.BECAME) == LANDED).select(*self.identity)
            rows = self.sink.fit.apply(good.join(landed, self.identity, "left_semi"))
            staged = writer.stage(rows, begun.state, begun.newest.token)
            if not writer.change.depends and staged.rows != report.landed:
                raise RetryCommit(f"staging: {staged.rows} rows of {report.landed} records")
        more = Replayed(landed=report.landed, filtered=report.filtered)
        done = acts.publish_rows(self.own, begun, staged, more, take=writer.take)
        _log.info("rows replayed", stream=self.assignment.stream, landed=report.landed, filtered=report.filtered)
        acts.settle(self.own, self.quarantine_table, replace(begun, newest=done))
        return done.seq

    def _why(self, at: acts.ReplayState) -> Column:
        """Column: why a row cannot be replayed; null if it can."""
        from pyspark.sql import functions as F

        topic, partition, offset = (F.col(name) for name in self.identity)
        position = at.state.position
        ends = kafka_position.parse(position.end.get(self.source.name, "-")) if position else {}
        passed = F.lit(False)
        for name, parts in ends.items():
            for number, end in parts.items():
                passed = passed | ((topic == name) & (partition == number) & (offset < end))
        # A version before column `kept` stored the value of undecodable records, and only the row of failed rules.
        early = F.when(F.col(quarantine.REASON) != "decode", Kept.ROW.value).when(
            F.octet_length(quarantine.RAW) >= KEPT_BYTES, Kept.PART.value
        )
        kept_as = F.coalesce(F.col(quarantine.KEPT), early.otherwise(Kept.VALUE.value))
        why = F.when(F.col(quarantine.SOURCE) != self.source.name, NotReplayable.SOURCE.value)
        why = why.when(~F.coalesce(passed, F.lit(False)), NotReplayable.AHEAD.value)
        why = why.when(kept_as == Kept.PART.value, NotReplayable.PART.value).when(
            kept_as == Kept.ROW.value, NotReplayable.ROW.value
        )
        beside = self.source.spec.decode is None or self.source.spec.decode.columns == "all"
        return why.when(kept_as == Kept.VALUE.value, NotReplayable.KEY.value) if beside else why

    def _raw(self, records: DataFrame) -> DataFrame:
        """Quarantined records in the form of the source."""
        from pyspark.sql import functions as F

        places = [name for name in self.source.spec.position_columns if name != INGESTED_AT]
        beside = [name for name in self.source.record if name != VALUE]
        now = F.current_timestamp().alias(INGESTED_AT)
        return records.select(*places, F.col(quarantine.RAW).alias(VALUE), *beside, now)

    def _claims(self, records: DataFrame, good: DataFrame, routed: RoutedRows) -> DataFrame:
        """Each record with its new result (null if it still fails), and its earlier replay token."""
        from pyspark.sql import functions as F

        own = good.select(*self.identity).distinct()
        claims = records.select(quarantine.SOURCE, *self.identity, F.col(quarantine.REPLAY).alias(acts.OLD))
        claims = claims.join(own.withColumn(_GOOD, F.lit(True)), self.identity, "left")
        if self.sink.writer.change.depends:
            claims = claims.withColumn(_THERE, F.lit(None).cast("boolean"))
        else:
            table = self.own.table(in_lake(self.own, self.report.table))
            there = quarantine.narrowed(table, own, self.identity).select(*self.identity).distinct()
            claims = claims.join(there.withColumn(_THERE, F.lit(True)), self.identity, "left")
        bad = [frame.select(*self.identity) for frame, _, _ in routed.bad]
        if bad:
            still = reduce(lambda one, other: one.unionByName(other), bad).distinct()
            claims = claims.join(still.withColumn(_BAD, F.lit(True)), self.identity, "left")
        else:
            claims = claims.withColumn(_BAD, F.lit(None).cast("boolean"))
        became = F.when(F.col(_BAD).isNotNull(), F.lit(None).cast("string")).when(F.col(_THERE).isNotNull(), PRESENT)
        became = became.when(F.col(_GOOD).isNotNull(), LANDED).otherwise(FILTERED)
        return claims.withColumn(quarantine.BECAME, became).drop(_GOOD, _THERE, _BAD)


def _failing(routed: RoutedRows) -> list[StillFailing]:
    """Reason, count and some errors of the records that still fail, most frequent first."""
    from pyspark.sql import functions as F

    bad = [frame.select(quarantine.REASON, quarantine.ERROR) for frame, number, _ in routed.bad if number]
    if not bad:
        return []
    errors = F.slice(F.array_sort(F.collect_set(quarantine.ERROR)), 1, _SAMPLES).alias("errors")
    every = reduce(lambda one, other: one.unionByName(other), bad)
    groups = every.groupBy(quarantine.REASON).agg(F.count(F.lit(1)).alias("count"), errors)
    found = [cast("StillFailing", group.asDict()) for group in groups.collect()]
    return sorted(found, key=lambda each: (-each["count"], each["reason"]))  # few reasons: Spark would run a job for it
