"""Quarantine landed rows: move the rows of a range that fail a check from the stream's table into its quarantine.

It runs beside the stream, in a separate session. Exactly the rows read from one snapshot move: the commit fails if
another writer has added to the range or rewritten its files since, and the attempt is repeated. The exactly-once steps
are described in `connectors.iceberg.removal`; `operations.replay` lands corrected rows later.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import structlog

from lakeward.connectors import source_types
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, pause
from lakeward.connectors.commit_protocol.replay import Replayed
from lakeward.connectors.iceberg import quarantine, removal
from lakeward.connectors.iceberg import replay as acts
from lakeward.connectors.iceberg.check import check_table
from lakeward.connectors.iceberg.overwrite import OverwriteWriter
from lakeward.connectors.iceberg.qualified import in_lake, prefix
from lakeward.connectors.iceberg.removal import FailingRows
from lakeward.connectors.kafka import continuity
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.offset_ranges import OFFSET, PARTITION, TOPIC
from lakeward.connectors.source import REASON, StreamSource
from lakeward.engine import quarantined, rows, session
from lakeward.engine.sinks.choose import choose
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.operations.left import Left
from lakeward.platform.errors import Refused, expect, expect_type
from lakeward.platform.text import word
from lakeward.spec.checks.quarantine import obstacle

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.platform.runtime import Runtime
    from lakeward.spec.model.stream import StreamSpec

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Failing:
    """The rows to move.

    Attributes:
        name: name of the check; stored as the reason in quarantine.
        text: the condition of the check.
        read: (session) -> the rows of the unproven range.
        condition: (rows) -> true for a row that fails.
        bound: (failing rows, rows) -> why this number must not move, as a clause; empty if it may.
        proven: (session) -> the proven rows, which must not fail; None if there are none.
    """

    name: str
    text: str
    read: Callable[[SparkSession], DataFrame]
    condition: Callable[[DataFrame], Column]
    bound: Callable[[int, int], str] = lambda failing, rows: ""
    proven: Callable[[SparkSession], DataFrame | None] = lambda session: None


@dataclass(frozen=True)
class Report:
    """Result of moving rows to quarantine.

    Attributes:
        stream, generation, table, quarantine, check: the stream, source and target table, and the reason.
        found: failing rows.
        moved: failing rows that moved (or would move).
        records: moved rows whose record was read again from the source; these can be replayed.
        left: `{why, count}` of the rows that stay.
        start, end: range of the rows' offsets in the source's form; None if there are none.
        seq, token: of the commit; None if nothing was committed.
        dry_run: nothing was changed; the figures are those of the plan.
    """

    stream: str
    generation: int
    table: str
    quarantine: str
    check: str
    found: int = 0
    moved: int = 0
    records: int = 0
    left: Sequence[Left] = ()
    start: str | None = None
    end: str | None = None
    seq: int | None = None
    token: str | None = None
    dry_run: bool = False


def suited(spec: StreamSpec, check: str, readers: Sequence[str] = ()) -> None:
    """Check that a stream's spec allows moving its rows to quarantine.

    Args:
        check: the check whose failing rows would move.
        readers: streams that read its table incrementally.

    Raises:
        Refused: names the obstacle.
    """
    why = obstacle(spec, readers)
    if why:
        raise Refused(
            f"Cannot quarantine rows of stream {spec.id}",
            why=why,
            next=f"lakeward quality waive {word(spec.sink.label)} {shlex.quote(check)} --for 2h "
            '--comment "its rows cannot move"',
            code="LW-2032",
        )


def quarantine_rows(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    failing: Failing,
    *,
    readers: Sequence[str] = (),
    dry_run: bool = False,
    before: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Move the failing rows of a stream's table into its quarantine, each exactly once. Safe to repeat.

    Args:
        spark: a session with the lake's catalog.
        assignment: the stream's current generation.
        readers: streams that read the table incrementally.
        dry_run: change nothing.
        before: called with the report before rows are removed, so that a kill leaves no unrecorded removal. Called
            again when the attempt is repeated.

    Raises:
        Refused: the rows cannot be identified, are too many, or another operation took over.
        Blocked: the table was rolled back, replaced or dropped.
        Transient: a table kept changing, or the catalog does not answer.
    """
    suited(assignment.spec, failing.name, readers)
    own = session.for_stream(spark, assignment.spec)
    (source,) = source_types.of(assignment.spec, runtime)
    chosen = choose(own, assignment, runtime, dict, lambda: None, {source.name: source.canonical})
    sink = expect_type(chosen, IcebergStreamSink, "the sink")
    given = {
        column_field.name: getattr(sink.writer, column_field.name)
        for column_field in fields(sink.writer)
        if column_field.init
    }
    act = _QuarantineRun(own, assignment, source, OverwriteWriter(**given), failing, dry_run, before)
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        try:
            return act.once()
        except RetryCommit as redo:
            _log.info("quarantine retried", stream=assignment.stream, why=str(redo))
    raise sink.writer.contention(-1, "other commits came first, every time")


@dataclass(frozen=True)
class _QuarantineRun:
    """One quarantine run, ready to be tried."""

    own: SparkSession
    assignment: Assignment
    source: StreamSource
    writer: OverwriteWriter
    failing: Failing
    dry_run: bool
    before: Callable[[Report], None]

    @property
    def _quarantine_table(self) -> str:
        return str(expect(self.assignment.spec.quarantine, "`quarantine`").table)

    def once(self) -> Report:
        """One attempt, from reading to settling.

        Raises:
            RetryCommit: a table changed meanwhile, and everything has to be read again.
        """
        table = str(self.assignment.spec.sink.label)
        report = Report(
            self.assignment.stream,
            self.assignment.generation,
            table,
            self._quarantine_table,
            self.failing.name,
            dry_run=self.dry_run,
        )
        at = self._look(table)
        if not self.dry_run:
            quarantined.exists(self.own, self.assignment.spec)
            quarantine.create(self.own, self._quarantine_table)
            acts.settle(self.own, self._quarantine_table, at)
        rows_ = self.failing.read(self.own)
        at = self._look(table)  # read after the rows were selected: every selected record lies below the position
        head = self._head(table)
        covers, failing, foreign = self._covers(rows_, at)
        remaining: list[Left] = (
            [{"why": "they carry no position of a record that this stream has landed", "count": foreign}]
            if foreign
            else []
        )
        report = replace(report, found=failing, left=remaining)
        if covers is None or head is None:
            return report
        whole = self.own.read.option("versionAsOf", str(head)).table(in_lake(self.own, table))
        bad = whole.where(covers.condition()).localCheckpoint(eager=True)
        self._check_distinct(bad)
        shaped = self._shaped(bad, covers, at).localCheckpoint(eager=True)
        read_again = shaped.where(shaped[quarantine.KEPT] == quarantine.Kept.RECORD.value).count()
        moved = shaped.count()
        report = replace(report, found=max(failing, moved + foreign), moved=moved, records=read_again)
        report = replace(report, start=covers.start, end=covers.end)
        if self.dry_run or not moved:
            return report
        self.writer.covers, self.writer.pinned = covers, head
        begun = acts.begin(self.own, at, self.assignment.generation)
        removal.copy_to_quarantine(self.own, shaped, self._quarantine_table, begun.newest.token, self.source.identity)
        staged = self.writer.stage(whole.limit(0), begun.state, begun.newest.token)
        more = Replayed(landed=-report.moved)
        report = replace(report, seq=begun.newest.seq, token=begun.newest.token)
        self.before(report)
        done = acts.publish_rows(self.own, begun, staged, more, take=self.writer.take)
        _log.info("rows quarantined", stream=self.assignment.stream, table=table, rows=report.moved)
        acts.settle(self.own, self._quarantine_table, replace(begun, newest=done))
        return report

    def _head(self, table: str) -> int | None:
        from lakeward.connectors.iceberg import jvm

        head = jvm.metadata_of(jvm.load(self.own, table)).currentSnapshot()
        return None if head is None else int(head.snapshotId())

    def _look(self, table: str) -> acts.ReplayState:
        """Read the table's state.

        Raises:
            Blocked: the table was rolled back, replaced or dropped.
        """
        at = acts.read_state(self.own, table, self.assignment.stream)
        halt = check_table(at.state, prefix(self.own, at.state.table))
        if halt is not None:
            raise halt.error()
        return at

    def _covers(self, rows_: DataFrame, at: acts.ReplayState) -> tuple[FailingRows | None, int, int]:
        """The failing rows of the range by their records, their number, and the number without a landed position."""
        from pyspark.sql import functions as F

        table = self.writer.table
        missing = {TOPIC, PARTITION, OFFSET} - set(rows_.columns)
        if missing:
            raise Refused(
                f"Rows of {table} do not carry their source position",
                why=f"the table has no column {', '.join(sorted(missing))}",
                next="keep the position columns in the transform, with lineage: rows",
                code="LW-2033",
            )
        fails = self.failing.condition(rows_)
        self._bounded(rows_, fails)
        parts = rows_.where(fails).groupBy(TOPIC, PARTITION)
        ends = parts.agg(F.min(OFFSET), F.max(OFFSET), F.count(F.lit(1))).collect()
        position = at.state.position
        landed = kafka_position.parse(position.end.get(self.source.name, "-")) if position is not None else {}
        low: kafka_position.Offsets = {}
        high: kafka_position.Offsets = {}
        foreign = 0
        for topic, part, first, last, number in ends:
            if first is None or landed.get(topic, {}).get(part, -1) <= last:
                foreign += number
                continue
            low.setdefault(topic, {})[part] = first
            high.setdefault(topic, {})[part] = last + 1
        failing = sum(part[4] for part in ends)
        if not low:
            return None, failing, foreign
        start, end = kafka_position.render(low), kafka_position.render(high)
        return FailingRows(self.assignment.stream, table, self.source.name, start, end, fails), failing, foreign

    def _bounded(self, rows_: DataFrame, fails: Column) -> None:
        """Check the number of failing rows, and that no proven row fails.

        Raises:
            Refused: too many rows fail, or proven rows fail.
        """
        from pyspark.sql import functions as F

        (counted,) = rows_.agg(F.count(F.when(fails, F.lit(1))), F.count(F.lit(1))).collect()
        why = self.failing.bound(*counted)
        proven = None if why or not counted[0] else self.failing.proven(self.own)
        if proven is not None and not proven.where(self.failing.condition(proven)).isEmpty():
            why = "proven rows fail the check too; readers have them already, and they would hold the table permanently"
        if why:
            raise Refused(
                f"Rows of {self.writer.table} that fail {self.failing.name} are not moved to quarantine",
                why=why,
                next=f"lakeward quality show {word(self.writer.table)}",
                code="LW-2034",
            )

    def _check_distinct(self, bad: DataFrame) -> None:
        """Check that every failing row is of a different record.

        Raises:
            Refused: a record has several rows.
        """
        if bad.select(*self.source.identity).distinct().count() != bad.count():
            raise Refused(
                f"Rows of {self.writer.table} that fail {self.failing.name} are duplicated",
                why="one record has several rows, so the rows to move cannot be identified",
                next=f"lakeward streams audit {self.assignment.stream}",
                code="LW-2035",
            )

    def _shaped(self, bad: DataFrame, covers: FailingRows, at: acts.ReplayState) -> DataFrame:
        """The rows in the form of the quarantine table, with their records where the source still has them."""
        from pyspark.sql import functions as F

        rules = {self.failing.name: self.failing.text}
        judged = bad.withColumn(REASON, F.lit(self.failing.name))
        quarantined = rows.broken(judged, rules, self.source.name, self.source.identity)
        known = at.state.position.topic_ids if at.state.position is not None else {}
        try:
            continuity.check_same(self.assignment.stream, "read the records again", known, self.source.ids())
            raw = self.source.again(self.own, covers.start, covers.end)
            full = rows.with_record(quarantined, raw, self.source).localCheckpoint(eager=True)
        except Exception as error:  # noqa: BLE001 - Spark's, if part of the range has expired, or the topic is another one
            _log.warning("records not read again, rows stored instead", why=str(error).split("\n")[0])
            full = quarantined
        return quarantine.shape(full, self.assignment.stream, self.assignment.generation)
