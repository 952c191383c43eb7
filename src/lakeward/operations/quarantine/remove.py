"""Putting rows aside that have landed: those of a range that fail a check, from the stream's table into its quarantine.

Beside the running stream, in a session of its own. What is read of one snapshot is exactly what goes: the commit fails
when anybody has added to the range or rewritten its files since, and all of it is looked at again. How it happens once
is told in `connectors.iceberg.removal`; `driver.replay` lands what is good later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors import source_types
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, pause
from lakeward.connectors.commit_protocol.replay import Replayed
from lakeward.connectors.iceberg import quarantine, removal
from lakeward.connectors.iceberg import replay as acts
from lakeward.connectors.iceberg.check import check_table
from lakeward.connectors.iceberg.overwrite import OverwriteWriter
from lakeward.connectors.iceberg.removal import FailingRows
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.offset_ranges import OFFSET, PARTITION, TOPIC
from lakeward.connectors.source import REASON, StreamSource
from lakeward.engine import rows, session
from lakeward.engine.sinks.choose import choose
from lakeward.engine.sinks.iceberg import IcebergLanding
from lakeward.platform.errors import Refused, expect, expect_type
from lakeward.platform.runtime import CATALOG
from lakeward.spec.checks.quarantine import obstacle
from lakeward.spec.sql.statements import quote_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.platform.runtime import Runtime
    from lakeward.spec.model.stream import StreamSpec

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Failing:
    """Which rows go.

    Attributes:
        name: of the check; the reason beside them in quarantine.
        text: what the check asks for.
        read: (session) -> the rows of the range that is not proven.
        condition: (rows) -> true for one that fails.
        bound: (failing rows, rows) -> why so many of so many are not taken, as a clause; empty when they are.
        proven: (session) -> the rows that are proven and must not be touched; None where there are none.
    """

    name: str
    text: str
    read: Callable[[SparkSession], DataFrame]
    condition: Callable[[DataFrame], Column]
    bound: Callable[[int, int], str] = lambda failing, rows: ""
    proven: Callable[[SparkSession], DataFrame | None] = lambda session: None


@dataclass(frozen=True)
class Report:
    """What went.

    Attributes:
        stream, generation, table, quarantine, check: whose, from where to where, why.
        found: failing rows.
        moved: of those, the ones that went (or would).
        records: of those, the ones whose record was read again from the source: they can be replayed.
        left: `{why, count}` of the others.
        start, end: the offsets the rows lie between, as the source writes them; None where there are none.
        seq, token: of the act; None where nothing was done.
        dry_run: nothing was done, and this is what would be.
    """

    stream: str
    generation: int
    table: str
    quarantine: str
    check: str
    found: int = 0
    moved: int = 0
    records: int = 0
    left: Sequence[dict[str, Any]] = ()
    start: str | None = None
    end: str | None = None
    seq: int | None = None
    token: str | None = None
    dry_run: bool = False


def suited(spec: StreamSpec, readers: Sequence[str] = ()) -> None:
    """Refuse what a spec alone tells.

    Args:
        readers: the streams that read its table as it grows.

    Raises:
        Refused: names what stands in the way.
    """
    why = obstacle(spec, readers)
    if why:
        raise Refused(
            f"Rows of stream {spec.id} cannot be put aside",
            why=why,
            next=f"lakeward quality waive {spec.sink.label} CHECK --for 2h --comment WHY",
            code="LW-2032",
        )


def put_aside(
    spark: SparkSession,
    wanted: Assignment,
    runtime: Runtime,
    failing: Failing,
    *,
    readers: Sequence[str] = (),
    dry_run: bool = False,
    before: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Move the failing rows of a stream's table into its quarantine, each exactly once. Safe to call again.

    Args:
        spark: a session with the lake's catalog.
        wanted: the stream's current generation.
        readers: the streams that read the table as it grows.
        dry_run: change nothing.
        before: told what goes before it does: who dies after that leaves no rows gone without a word. Told again when
            the act has to begin anew.

    Raises:
        Refused: the rows cannot be told from others, are too many, or another act took over.
        Blocked: the table was rolled back, replaced or dropped.
        Transient: a table kept changing, or the catalog does not answer.
    """
    suited(wanted.spec, readers)
    own = session.for_stream(spark, wanted.spec)
    (inlet,) = source_types.of(wanted.spec, runtime)
    chosen = choose(own, wanted, runtime, dict, lambda: None, {inlet.name: inlet.canonical})
    landing = expect_type(chosen, IcebergLanding, "the sink")
    given = {each.name: getattr(landing.writer, each.name) for each in fields(landing.writer) if each.init}
    act = _Act(own, wanted, inlet, OverwriteWriter(**given), failing, dry_run, before)
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        try:
            return act.once()
        except RetryCommit as redo:
            _log.info("putting aside again", stream=wanted.stream, why=str(redo))
    raise landing.writer.contention(-1, "other commits came first, every time")


@dataclass(frozen=True)
class _Act:
    """One removal, made ready."""

    own: SparkSession
    wanted: Assignment
    inlet: StreamSource
    writer: OverwriteWriter
    failing: Failing
    dry_run: bool
    before: Callable[[Report], None]

    @property
    def _aside(self) -> str:
        return str(expect(self.wanted.spec.quarantine, "`quarantine`").table)

    def once(self) -> Report:
        """One attempt, from reading to settling.

        Raises:
            Redo: a table changed meanwhile in a way that needs another look.
        """
        table = str(self.wanted.spec.sink.label)
        report = Report(
            self.wanted.stream, self.wanted.generation, table, self._aside, self.failing.name, dry_run=self.dry_run
        )
        at = self._look(table)
        if not self.dry_run:
            quarantine.create(self.own, self._aside)
            acts.settle(self.own, self._aside, at)
        rows_ = self.failing.read(self.own)
        at = self._look(table)  # anew: of a range that was decided on before, every record lies below the position
        head = self._head(table)
        covers, found, strangers = self._covers(rows_, at)
        left = [{"why": "they name no record that this stream has landed", "count": strangers}] if strangers else []
        report = replace(report, found=found, left=left)
        if covers is None or head is None:
            return report
        whole = self.own.read.option("versionAsOf", str(head)).table(quote_table(table, CATALOG))
        bad = whole.where(covers.condition()).localCheckpoint(eager=True)
        self._told_apart(bad)
        shaped = self._shaped(bad, covers).localCheckpoint(eager=True)
        again = shaped.where(shaped[quarantine.KEPT] == quarantine.Kept.RECORD.value).count()
        moved = shaped.count()
        report = replace(report, found=max(found, moved + strangers), moved=moved, records=again)
        report = replace(report, start=covers.start, end=covers.end)
        if self.dry_run or not moved:
            return report
        self.writer.covers, self.writer.pinned = covers, head
        begun = acts.begin(self.own, at, self.wanted.generation)
        removal.copy(self.own, shaped, self._aside, begun.newest.token, self.inlet.identity)
        staged = self.writer.stage(whole.limit(0), begun.state, begun.newest.token)
        more = Replayed(landed=-report.moved)
        report = replace(report, seq=begun.newest.seq, token=begun.newest.token)
        self.before(report)
        done = acts.publish_rows(self.own, begun, staged, more, take=self.writer.take)
        _log.info("rows put aside", stream=self.wanted.stream, table=table, rows=report.moved)
        acts.settle(self.own, self._aside, replace(begun, newest=done))
        return report

    def _head(self, table: str) -> int | None:
        from lakeward.connectors.iceberg import jvm

        head = jvm.metadata_of(jvm.load(self.own, table)).currentSnapshot()
        return None if head is None else int(head.snapshotId())

    def _look(self, table: str) -> acts.At:
        """The table as it is now.

        Raises:
            Blocked: it was rolled back, replaced or dropped.
        """
        at = acts.look(self.own, table, self.wanted.stream)
        halt = check_table(at.state)
        if halt is not None:
            raise halt.error()
        return at

    def _covers(self, rows_: DataFrame, at: acts.At) -> tuple[FailingRows | None, int, int]:
        """The failing rows of the range by their records, how many there are, and how many name no record of ours."""
        from pyspark.sql import functions as F

        table = self.writer.table
        missing = {TOPIC, PARTITION, OFFSET} - set(rows_.columns)
        if missing:
            raise Refused(
                f"Rows of {table} do not name their records",
                why=f"it has no column {', '.join(sorted(missing))}",
                next="keep the position columns in the transform, with lineage: rows",
                code="LW-2033",
            )
        fails = self.failing.condition(rows_)
        self._bounded(rows_, fails)
        parts = rows_.where(fails).groupBy(TOPIC, PARTITION)
        ends = parts.agg(F.min(OFFSET), F.max(OFFSET), F.count(F.lit(1))).collect()
        position = at.state.position
        landed = kafka_position.parse(position.end.get(self.inlet.name, "-")) if position is not None else {}
        low: kafka_position.Offsets = {}
        high: kafka_position.Offsets = {}
        strangers = 0
        for topic, part, first, last, number in ends:
            if first is None or landed.get(topic, {}).get(part, -1) <= last:
                strangers += number
                continue
            low.setdefault(topic, {})[part] = first
            high.setdefault(topic, {})[part] = last + 1
        found = sum(each[4] for each in ends)
        if not low:
            return None, found, strangers
        start, end = kafka_position.render(low), kafka_position.render(high)
        return FailingRows(self.wanted.stream, table, self.inlet.name, start, end, fails), found, strangers

    def _bounded(self, rows_: DataFrame, fails: Column) -> None:
        """Only rows that may go do: not too many, and none that is proven.

        Raises:
            Refused: they are.
        """
        from pyspark.sql import functions as F

        (counted,) = rows_.agg(F.count(F.when(fails, F.lit(1))), F.count(F.lit(1))).collect()
        why = self.failing.bound(*counted)
        proven = None if why or not counted[0] else self.failing.proven(self.own)
        if proven is not None and not proven.where(self.failing.condition(proven)).isEmpty():
            why = "rows that are proven fail it too: readers have them, and they would hold the table from then on"
        if why:
            raise Refused(
                f"Rows of {self.writer.table} that fail {self.failing.name} are not put aside",
                why=why,
                next=f"lakeward quality show {self.writer.table}",
                code="LW-2034",
            )

    def _told_apart(self, bad: DataFrame) -> None:
        """Each failing row must be of another record.

        Raises:
            Refused: a record is there twice.
        """
        if bad.select(*self.inlet.identity).distinct().count() != bad.count():
            raise Refused(
                f"Rows of {self.writer.table} that fail {self.failing.name} are there more than once",
                why="of one record there are several: which of them goes cannot be counted",
                next=f"lakeward streams audit {self.wanted.stream}",
                code="LW-2035",
            )

    def _shaped(self, bad: DataFrame, covers: FailingRows) -> DataFrame:
        """As rows of the quarantine table, each with its record where the source still has it."""
        from pyspark.sql import functions as F

        rules = {self.failing.name: self.failing.text}
        judged = bad.withColumn(REASON, F.lit(self.failing.name))
        aside = rows.broken(judged, rules, self.inlet.name, self.inlet.identity)
        try:
            raw = self.inlet.again(self.own, covers.start, covers.end)
            full = rows.with_record(aside, raw, self.inlet).localCheckpoint(eager=True)
        except Exception as error:  # noqa: BLE001 - Spark's, of a topic that has not all of the range any more
            _log.warning("records cannot be read again: their rows are kept instead", why=str(error).split("\n")[0])
            full = aside
        return quarantine.shape(full, self.wanted.stream, self.wanted.generation)
