"""Backfill: land a bounded range of a stream's source exactly once, beside the running stream, under its own position.

The records go through the same decoding, transform, rules and commit protocol as a batch. Only the planning differs:
this module plans the batches from the position in the table, as large as the stream's own. A killed backfill leaves its
position, and the next run continues from there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors import source_types
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, pause
from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.iceberg import jvm, publish, quarantine
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.kafka import continuity
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.engine import flow, quarantined, session
from lakeward.engine.assignment import Assignment
from lakeward.engine.references import References
from lakeward.engine.routing import RowRouter
from lakeward.engine.sinks.choose import choose
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.operations.backfill.eligibility import following, name_of, overwritable, repairable, suited
from lakeward.operations.backfill.range import BackfillRange, FilesRange, TopicRange
from lakeward.operations.backfill.windows import MARGIN, Windows
from lakeward.operations.backfill.work import Report as Report
from lakeward.operations.backfill.work import Work, topics
from lakeward.operations.backfill.write_strategy import ByKey, InPlace, NewTable, WriteStrategy
from lakeward.platform.errors import Refused, expect_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeward.platform.runtime import Runtime

_log = structlog.get_logger(__name__)


def backfill(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    start: str,
    end: str,
    *,
    into: str | None = None,
    named: str | None = None,
    dry_run: bool = False,
    report_progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Land a range of the source. Safe to repeat with the same range: it continues at its position.

    Args:
        spark: a session with the lake's catalog.
        assignment: the stream's current generation.
        start, end: canonical offsets of its source, from (inclusive) and to (exclusive), of the same partitions.
        into: another table than the stream's; created if missing.
        named: the position's name, if the caller has checked what else is in the table.
        dry_run: change nothing.
        report_progress: takes the report after each batch.

    Raises:
        Refused: rows could land twice, or the range cannot be processed on its own.
        SpecError: the transform does not fit the table or the records.
        Fenced: another run of the same backfill landed a batch.
        Blocked: the table was rolled back, replaced or dropped.
        Transient: the table kept changing, or the catalog does not answer.
    """
    suited(assignment.spec, into)
    (source,) = source_types.of(assignment.spec, runtime)
    backfill_range = topics(assignment, source, start, end)
    return _land_range(
        spark,
        assignment,
        runtime,
        backfill_range,
        _strategy_of(into),
        into=into,
        named=named,
        dry_run=dry_run,
        report_progress=report_progress,
    )


def overwrite(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    start: str,
    end: str,
    *,
    readers: Sequence[str] = (),
    dry_run: bool = False,
    report_progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Land a range again into the stream's own table and replace the rows of the same records.

    The part of the range that the stream has not landed yet is left to the stream.

    Args:
        readers: streams that read the table incrementally.

    Raises:
        Refused: also if rows cannot be matched to their records, or the audit would be ambiguous afterwards.
        For others see `backfill`.
    """
    overwritable(assignment.spec, readers)
    (source,) = source_types.of(assignment.spec, runtime)
    strategy = InPlace(spark, assignment, source.name)
    first, last, landed = strategy.within(start, end)
    continuity.check_same(
        assignment.stream, f"overwrite rows of stream {assignment.stream}", landed.topic_ids, source.ids()
    )
    # Each batch rewrites the files that it replaces rows in: few large batches write less than many small ones.
    backfill_range = topics(assignment, source, first, last, times=10)
    return _land_range(
        spark,
        assignment,
        runtime,
        backfill_range,
        strategy,
        into=None,
        dry_run=dry_run,
        report_progress=report_progress,
    )


def repair_windows(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    low: datetime,
    high: datetime,
    *,
    margin: timedelta = MARGIN,
    readers: Sequence[str] = (),
    dry_run: bool = False,
    report_progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Recompute the windows that lie entirely in a range of event time, with late rows, and replace them in the table.

    Windows that the stream has not closed are left out.

    Args:
        low, high: event times.
        margin: records are read from this long before `low` on, by the time at which they were written.
        readers: streams that read the table incrementally.

    Raises:
        Refused: also if the topic no longer has all records of the windows. For others see `backfill`.
    """
    window = repairable(assignment.spec, readers)
    (only,) = source_types.of(assignment.spec, runtime)
    source = expect_type(only, KafkaStreamSource, "the source")
    strategy = Windows(spark, assignment, window, low, high, margin)
    strategy.covers, at = strategy.range()
    continuity.check_same(
        assignment.stream, f"repair windows of stream {assignment.stream}", at.topic_ids, source.ids()
    )
    backfill_range = TopicRange(source, *strategy.offsets(source, at), most=0)
    windows_text = f"{window.column} from {strategy.covers.low.isoformat()} to {strategy.covers.high.isoformat()}"
    if strategy.covers.final < high:
        windows_text += f"; left out: windows that end after {at.complete_through}, which the stream has not closed"
    done = _land_range(
        spark,
        assignment,
        runtime,
        backfill_range,
        strategy,
        into=None,
        dry_run=dry_run,
        report_progress=report_progress,
    )
    return replace(done, windows=windows_text)


def backfill_files(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    backfill_range: FilesRange,
    *,
    into: str | None = None,
    dry_run: bool = False,
    report_progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Land files as if they came from the source. Arguments and errors as of `backfill`, with positions of a listing.

    Raises:
        Refused: also if files have changed since an earlier run landed them.
    """
    suited(assignment.spec, into, files=True)
    return _land_range(
        spark,
        assignment,
        runtime,
        backfill_range,
        _strategy_of(into),
        into=into,
        dry_run=dry_run,
        report_progress=report_progress,
    )


def _strategy_of(into: str | None) -> WriteStrategy:
    return ByKey() if into is None else NewTable(into)


def _land_range(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    backfill_range: BackfillRange,
    strategy: WriteStrategy,
    *,
    into: str | None,
    named: str | None = None,
    dry_run: bool,
    report_progress: Callable[[Report], None],
) -> Report:
    """Land a range that was checked; see `backfill`."""
    spec, source = assignment.spec, backfill_range.source
    own = session.for_stream(spark, spec)
    table = into or str(spec.sink.label)
    name, begun, stale = (named, None, ()) if named else _choose(own, assignment, table, backfill_range.start, strategy)
    report = Report(
        assignment.stream, assignment.generation, table, name, backfill_range.start, backfill_range.end,
        begun=begun.end[source.name] if begun else None,
    )  # fmt: skip
    if begun is not None:
        backfill_range.goes_on(begun)
    if dry_run:
        return report
    for finished in stale:
        _remove_position(own, table, finished)
    chosen = choose(
        own, _retargeted(assignment, name, table), runtime, source.ids, lambda: None, {source.name: source.canonical}
    )
    sink = expect_type(chosen, IcebergStreamSink, "the sink")
    strategy.begin(sink)
    sink_state = sink.observe(source.ids())
    if sink_state.halt is not None:
        raise sink_state.halt.error()
    begun = sink_state.position
    report = replace(report, begun=begun.end[source.name] if begun else None)
    references = References(assignment.stream, spec.reference, runtime)
    try:
        built = flow.build(own, spec, [source], references.frames(own), flow.Start("fresh", fresh=True))
        if source.hidden and built.joins:
            built = replace(
                built, lineage="none"
            )  # without a position column, a record that comes out twice cannot be detected
        if built.stateful and not strategy.stateful:
            raise Refused(
                f"Stream {assignment.stream} cannot be backfilled yet",
                why="it keeps state; windows of a separate range would lack earlier records",
                next=f"lakeward streams backfill {assignment.stream} --windows FROM..TO --dry-run   repairs windows",
                code="LW-2001",
            )
        strategy.prepare(sink, built)
        sink.writer.stateful = False
        if spec.quarantine is not None:
            quarantined.exists(own, spec)
            quarantine.create(own, str(spec.quarantine.table))
        router, counts = RowRouter(assignment.stream, built), built.lineage == "rows"
        done = Work(own, assignment, source, sink, router, references, counts, backfill_range, strategy).run(
            report, begun, report_progress
        )
        if not strategy.alone:
            _remove_position(own, table, name)
        return done
    finally:
        references.release()


def _choose(
    own: SparkSession, assignment: Assignment, table: str, start: str, strategy: WriteStrategy
) -> tuple[str, Position | None, Sequence[str]]:
    """The backfill's name, its position if an earlier run left one, and names of killed ones that had finished."""
    others: Mapping[str, Position] = {}
    rows, used = False, list[str]()
    if own.catalog.tableExists(in_lake(own, table)):
        metadata = jvm.metadata_of(jvm.load(own, table))
        others = jvm.others_of(metadata, "", table)
        rows = metadata.currentSnapshot() is not None
        used = _published(metadata)
    if strategy.whole is not None:
        stale = [name for name in others if name.startswith(assignment.stream + strategy.whole)]
        return following(assignment.stream, strategy.whole, [*others, *used]), None, stale
    source = str(next(iter(assignment.spec.sources)))
    begin, alone = {source: start}, strategy.alone
    return *name_of(
        assignment.stream, assignment.generation, table, others, begin, alone=alone, rows=rows, used=used
    ), ()


def _published(metadata: Any) -> list[str]:
    """Names of the writers whose batches are on main, by their WAP ids."""
    names, head = dict[str, None](), metadata.currentSnapshot()
    link = jvm.link_of(head)
    while link is not None:
        names[(link.wap_id or "").partition("/")[0]] = None
        link = None if link.parent is None else jvm.link_of(metadata.snapshot(link.parent))
    return list(names)


def _remove_position(own: SparkSession, table: str, name: str) -> None:
    """Remove the backfill's position from the stream's own table, where it would count as another stream's.

    Landing the range again changes nothing: a row never replaces an equally new one, or it replaces its equal.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        raw = jvm.metadata_of(jvm.load(own, table)).properties().get(key(name))
        if raw is None:
            return
        try:
            publish.remove_position(own, table, name, raw)
        except publish.PositionMoved:
            continue
        except Exception as error:
            if jvm.trouble(error) not in (jvm.Trouble.COMMIT_FAILED, jvm.Trouble.UNKNOWN):
                raise
        else:
            return
    _log.warning("backfill position not removed", table=table, position=name)


def _retargeted(assignment: Assignment, name: str, table: str) -> Assignment:
    """The assignment with another sink table, under the backfill's name."""
    document: dict[str, Any] = copy.deepcopy(json.loads(json.dumps(dict(assignment.document))))
    document["sink"]["iceberg"]["table"] = table
    return Assignment(name, assignment.generation, document, "")
