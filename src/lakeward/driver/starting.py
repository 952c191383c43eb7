"""Query launcher: reach the sources, run preflight, build the plan, prepare the tables, start the query of a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors import source_types
from lakeward.connectors.aws import store
from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.connectors.kafka.starting_offsets import partitions
from lakeward.connectors.python import packages
from lakeward.connectors.source import StreamSource
from lakeward.driver.real_time import query as real_time_query
from lakeward.driver.real_time.accounting import RecordAccounting
from lakeward.driver.real_time.progress_marker import ProgressMarker, ProgressMarkers
from lakeward.driver.real_time.running import RunningRealTimeQuery
from lakeward.driver.running import Running
from lakeward.engine import executors, flow, quarantined, session
from lakeward.engine.assignment import Assignment
from lakeward.engine.batch import BatchFunction, FinishedBatch
from lakeward.engine.checkpoint import compatibility, conflicts, fresh, preflight
from lakeward.engine.checkpoint import files as checkpoint
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.rebuild import rebuild
from lakeward.engine.flow import Flow
from lakeward.engine.gate import Gate
from lakeward.engine.references import References
from lakeward.engine.sinks.at_least_once import RealTimeSink
from lakeward.engine.sinks.base import Declared, SinkState, StreamSink
from lakeward.engine.sinks.choose import choose
from lakeward.platform.errors import expect, expect_type
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.stream import StreamSpec
from lakeward.tables.guard.source_files import SourceFileOwners

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery

_log = structlog.get_logger(__name__)

TURNS, TURN_S = 2, 15.0
"""How many streams start at a time, and how long a stream waits for its turn before it starts anyway."""


@dataclass(frozen=True)
class QueryLauncher:
    """What every start of a stream in this driver needs.

    Args:
        spark: the driver's session.
        runtime: addresses.
        check_lease: (stream) raises unless this driver's lease of it is live.
        report: receives finished batches.
        listener: makes the listener of one stream.
        declared: returns every declared stream with its recorded checkpoint; None while the registry is down.
        quarantine_tables: returns those that the generations of a stream name; None while the registry is down.
        late_kept: returns what a stream kept in a table of late records; None while the registry is down.
        unstarted: returns why the cluster has not started an executor.
    """

    spark: SparkSession
    runtime: Runtime
    check_lease: Callable[[str], None]
    report: Callable[[FinishedBatch], None]
    listener: Callable[[Assignment], StreamingQueryListener]
    declared: Declared = lambda: None
    quarantine_tables: quarantined.Named = lambda stream: None
    late_kept: quarantined.Kept = lambda stream, table: None
    unstarted: executors.Unstarted = lambda: None
    _turns: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(TURNS))
    _creating: threading.Lock = field(default_factory=threading.Lock)

    def start(self, assignment: Assignment) -> Running:
        """Start a stream's query.

        Raises:
            SpecError: the spec does not fit its sources or its sink.
            Blocked: checkpoint and table disagree.
            DependencyDown: broker or catalog cannot be reached.
        """
        # Few at a time, so that the first ones land soon; one that hangs delays the others only for a while.
        turn = self._turns.acquire(timeout=TURN_S)
        try:
            return self._start(assignment)
        finally:
            if turn:
                self._turns.release()

    def _start(self, assignment: Assignment) -> Running:
        began = time.monotonic()
        spec = assignment.spec
        sources = source_types.of(spec, self.runtime)
        for source in sources:
            if isinstance(source, FilesStreamSource):
                source.owners = SourceFileOwners(self.runtime)
        # A broker that is down is reported here, in one sentence, not after Spark's minutes of retries.
        topics = _topic_ids(sources)
        store.check(self.runtime.lake, assignment.checkpoint, self.runtime.lake.warehouse)
        own = session.for_stream(self.spark, spec, assignment.checkpoint)
        if not all(source.resumes for source in sources):
            assignment = fresh.begin(own, assignment)
        packages.activate(own, assignment.stream, spec.packages, self.runtime.environments)
        canonical = {source.name: source.canonical for source in sources}
        topic_ids = partial(_topic_ids, sources)
        sink = choose(own, assignment, self.runtime, topic_ids, lambda: self.check_lease(assignment.stream), canonical)
        content = self._read_checkpoint(own, assignment)
        sink_state = sink.observe(topics)
        begin = self._preflight(assignment, content, sink_state, sink, sources, topics)
        conflict = sink.conflict(assignment.checkpoint, content, self.declared, topics)
        if conflict is not None:
            conflict.check()
        if spec.trigger.unbatched:
            begin = _real_time_begin(own, assignment, sources, topics, content, begin)
        references = References(assignment.stream, spec.reference, self.runtime)
        built = flow.build(own, spec, sources, references.frames(own), begin)
        notes = _check_compatibility(own, assignment, content, sink_state.position, built)
        executors.check(own, spec, self.runtime, assignment.checkpoint, self.unstarted, stateful=built.stateful)
        with self._creating:  # streams start in parallel, and two cannot create one namespace at a time
            sink.prepare(built.columns, stateful=built.stateful)
            notes += _column_notes(sink, assignment)
            if spec.quarantine is not None:
                quarantined.prepare(own, spec, sink_state.position, self.runtime.lake, self.quarantine_tables)
            if spec.late is not None:
                quarantined.prepare_late(own, spec, self.runtime.lake, self.late_kept)
        self._open(own, assignment, sink.location(), built, begin)
        gate = Gate()
        function = BatchFunction(
            session=own,
            stream=assignment.stream,
            generation=assignment.generation,
            flow=built,
            sink=sink,
            gate=gate,
            references=references,
            quarantine_table=str(spec.quarantine.table) if spec.quarantine else None,
            late_table=str(spec.late.table) if spec.late else None,
            report=self.report,
        )
        listener = self.listener(assignment)
        own.streams.addListener(listener)
        # Each stream has its own scheduler pool. The property is thread-local; the query's thread inherits it.
        own.sparkContext.setLocalProperty("spark.scheduler.pool", assignment.stream)
        if spec.trigger.unbatched:
            query = real_time_query.start(own, built, self.runtime, assignment.checkpoint)
        else:
            query = (
                built.query.writeStream.queryName(assignment.stream)
                .foreachBatch(function)
                .outputMode(sink.output_mode)
                .option("checkpointLocation", assignment.checkpoint)
                .trigger(**_trigger(spec))
                .start()
            )
        _log.info(
            "stream started",
            stream=assignment.stream,
            generation=assignment.generation,
            checkpoint=begin.finding,
            shape="with state" if built.stateful else "row by row",
            lineage=built.lineage,
            query_id=str(query.id),
            seconds=round(time.monotonic() - began, 2),
        )
        given: dict[str, Any] = {
            "assignment": assignment,
            "query": query,
            "function": function,
            "gate": gate,
            "references": references,
            "finding": begin.finding,
            "session": own,
            "listener": listener,
            "files": checkpoint.files_of(own, assignment.checkpoint),
            "notes": tuple(notes),
            "at": dict(begin.at),
        }
        if isinstance(sink, RealTimeSink):
            return RunningRealTimeQuery(**given, accounts=_start_accounting(sink, function, query, assignment))
        return Running(**given)

    def _open(
        self, own: SparkSession, assignment: Assignment, table_folder: str | None, built: Flow, begin: flow.Start
    ) -> None:
        """Give each source its folder in the checkpoint, and create a new checkpoint where one is needed."""
        names = offsets.order_of(built.query, [source.name for source in built.sources])
        order = [next(source for source in built.sources if source.name == name) for name in names]
        for index, source in enumerate(order):
            files = checkpoint.files_of(own, assignment.checkpoint)
            source.opened(files, f"{assignment.checkpoint}/sources/{index}", table_folder)
            source.may_start(assignment.stream)
        if begin.fresh and not built.stateful:  # with state no batch may follow the position: the state would be empty
            rebuild(assignment.checkpoint, order, begin.begin, FileAccess(self.runtime.lake))

    def _read_checkpoint(self, own: SparkSession, assignment: Assignment) -> Checkpoint:
        """Read the checkpoint; refused if another stream uses it."""
        others = self.declared() or {}
        places = {name: self.runtime.checkpoint_of(recorded) for name, recorded in others.items()}
        shared = conflicts.sharing(assignment.stream, assignment.checkpoint, places)
        if shared is not None:
            shared.check()
        files = checkpoint.files_of(own, assignment.checkpoint)
        return checkpoint.read(files, assignment.checkpoint)

    def _preflight(
        self,
        assignment: Assignment,
        content: Checkpoint,
        sink_state: SinkState,
        sink: StreamSink,
        sources: list[StreamSource],
        topic_ids: dict[str, str],
    ) -> flow.Start:
        """Preflight: compare checkpoint, table and sources; returns where the query begins."""
        position = sink_state.position
        if sink_state.absent is not None and (not content.empty or assignment.known_query):
            # The table was created before the first batch: a new one would miss the rows that have landed.
            raise sink_state.absent().error()
        # The first batch of all began where the spec says; that of a recovered stream began at the table's position.
        first = position is None or (position.seq == 1 and position.batch == 0)
        fixed = all(source.begins_fixed for source in sources)
        verdict = preflight.classify(
            assignment.stream,
            content,
            position,
            exact=sink.exact,
            known_query=assignment.known_query,
            begins=all(source.begins for source in sources) and not (first and fixed),
        )
        finding = _restorable(assignment.stream, verdict, position, sources, sink).check()
        if sink_state.halt is not None:
            raise sink_state.halt.error()
        ends = position.end if position is not None else preflight.ends_of(content, [source.name for source in sources])
        for source in sources:
            at = ends.get(source.name)
            if at is not None:
                source.still_has(assignment.stream, at, topic_ids)
        return flow.Start(str(finding), finding is preflight.Finding.FRESH, _recovered_at(position), ends)


def _restorable(
    stream: str, verdict: preflight.Verdict, position: Position | None, sources: list[StreamSource], sink: StreamSink
) -> preflight.Verdict:
    """The verdict without `recover`, if the copy of a source's log is lost too: it would refuse."""
    if verdict.fit or "streams recover" not in verdict.next or position is None:
        return verdict
    beside = sink.location()
    lost = [each.name for each in sources if not each.restorable(position.end.get(each.name, NO_DATA), beside)]
    if not lost:
        return verdict
    why = f"{verdict.why}; the copy of the log of source {', '.join(lost)} does not list the landed files either"
    return replace(verdict, why=why, next=preflight.from_a_copy(stream))


def _topic_ids(sources: list[StreamSource]) -> dict[str, str]:
    """The present topic ids of a stream's sources."""
    found: dict[str, str] = {}
    for source in sources:
        found |= source.ids()
    return found


def _real_time_begin(
    own: SparkSession,
    assignment: Assignment,
    sources: list[StreamSource],
    topics: dict[str, str],
    content: Checkpoint,
    found: flow.Start,
) -> flow.Start:
    """Where a real-time query begins; refused if its driver has too few cores."""
    [only] = sources
    source = expect_type(only, KafkaStreamSource, "the source")
    names = sorted(topics)
    real_time_query.check_cores(assignment.spec, partitions(source.cluster, names), own.sparkContext.defaultParallelism)
    ends = preflight.ends_of(content, [source.name])
    passed = ProgressMarker(content.committed + 1, ends[source.name]) if ends else None
    begin = real_time_query.begin(source, ProgressMarkers(own, assignment.checkpoint), names, passed)
    # Set at every start: until its first epoch is committed, continuous processing begins again.
    return replace(found, fresh=True, begin={source.name: begin})


def _start_accounting(
    sink: RealTimeSink, function: BatchFunction, query: StreamingQuery, assignment: Assignment
) -> RecordAccounting:
    """Start the record accounting of a real-time query."""
    own, spec = function.session, assignment.spec
    interval = expect(spec.trigger.interval, "the interval of the trigger")
    accounts = RecordAccounting(
        function=function,
        sink=sink,
        source=function.flow.sources[0],
        files=checkpoint.files_of(own, assignment.checkpoint),
        folder=assignment.checkpoint,
        marks=ProgressMarkers(own, assignment.checkpoint),
        check=lambda count: real_time_query.check_cores(spec, count, own.sparkContext.defaultParallelism),
        interval_s=float(interval.seconds),
    )
    accounts.query = query
    accounts.begin()
    from pyspark.util import InheritableThread

    InheritableThread(target=accounts.run, session=own, daemon=True, name=f"accounts-{assignment.stream}").start()
    return accounts


def _check_compatibility(
    own: SparkSession, assignment: Assignment, content: Checkpoint, position: Position | None, built: Flow
) -> list[str]:
    """Check that the checkpoint fits this query; returns notes for people."""
    by_name = {source.name: source for source in built.sources}
    order = offsets.order_of(built.query, list(by_name))
    reads = [compatibility.SourceNow(name, by_name[name].reads) for name in order]
    query = compatibility.Query(reads, built.stateful, assignment.spec.trigger.continuous is not None)
    found = compatibility.judge(assignment.stream, content, position, query)
    if found is not None:
        found.check()
    notes = compatibility.notes(content, query, {name: own.conf.get(name, None) for name in content.conf})
    for note in notes:
        _log.warning("checkpoint note", stream=assignment.stream, note=note)
    return notes


def _column_notes(sink: StreamSink, assignment: Assignment) -> tuple[str, ...]:
    """Notes for people on how the transform fits its table."""
    for note in sink.notes:
        _log.warning("column note", stream=assignment.stream, generation=assignment.generation, note=note)
    return sink.notes


def _recovered_at(position: Position | None) -> dict[str, str]:
    """Where a new checkpoint begins: at the position, if an operation set it rather than a query."""
    if position is None or position.query_id:
        return {}
    return {source: end for source, end in position.end.items() if end != NO_DATA}


def _trigger(spec: StreamSpec) -> dict[str, Any]:
    """Arguments for Spark's `trigger`."""
    if spec.trigger.available_now:
        return {"availableNow": True}
    every = expect(spec.trigger.every, "`trigger: {every: ..}`: the other triggers have no batches")
    return {"processingTime": str(every.spark)}
