"""Starting one stream: reach its sources, judge its checkpoint, build its plan, prepare its tables, start the query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors.iceberg import java, offsets, quarantine, table
from lakeward.connectors.iceberg.check import Halt, RunningBatch, TableState, check_table, decide
from lakeward.connectors.iceberg.position import NO_DATA, Position, key
from lakeward.connectors.iceberg.writer import ExactAppend
from lakeward.connectors.kafka import broker, continuity
from lakeward.driver import checkpoint, fit, flow, neighbours, preflight, schema, session
from lakeward.driver.batch import BatchFunction, Done
from lakeward.driver.flow import Flow
from lakeward.driver.gate import Gate
from lakeward.driver.landing import IcebergLanding, KafkaLanding, Landing
from lakeward.driver.layout import Checkpoint
from lakeward.driver.references import References
from lakeward.driver.running import Running
from lakeward.driver.wanted import Wanted
from lakeward.errors import SpecError
from lakeward.runtime import CATALOG, Runtime
from lakeward.spec.sinks import IcebergSink
from lakeward.spec.sql import quote_table
from lakeward.spec.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

_log = structlog.get_logger(__name__)

TURNS, TURN_S = 2, 15.0
"""How many streams start at a time, and how long one waits for its turn before it starts all the same."""
TOPICS_EVERY_S = 30.0
"""How old a topic's id may be when a batch compares it: a recreated topic is seen at the latest after this."""


@dataclass(frozen=True)
class Starter:
    """What every start of a stream in this driver needs.

    Args:
        spark: the driver's session.
        runtime: addresses.
        held: (stream) raises unless this driver's lease of it is live.
        report: takes batches.
        listener: makes the listener of one stream.
        declared: every declared stream with its checkpoint as recorded; None while the registry is away.
    """

    spark: SparkSession
    runtime: Runtime
    held: Callable[[str], None]
    report: Callable[[Done], None]
    listener: Callable[[Wanted], StreamingQueryListener]
    declared: Callable[[], Mapping[str, str] | None] = lambda: None
    _turns: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(TURNS))
    _creating: threading.Lock = field(default_factory=threading.Lock)

    def start(self, wanted: Wanted) -> Running:
        """Start a stream's query.

        Raises:
            SpecError: the spec does not fit its sources or its sink.
            Blocked: checkpoint and table disagree.
            DependencyDown: broker or catalog cannot be reached.
        """
        # Few at a time, so that the first ones land soon; one that hangs keeps the others from no more than a while.
        turn = self._turns.acquire(timeout=TURN_S)
        try:
            return self._start(wanted)
        finally:
            if turn:
                self._turns.release()

    def _start(self, wanted: Wanted) -> Running:
        began = time.monotonic()
        spec = wanted.spec
        inlets = flow.inlets(spec, self.runtime)
        topics = _Topics(inlets)
        topics.now()  # a broker that is away is said here, in one sentence, and not after Spark's minutes of retries
        own = session.for_stream(self.spark, spec)
        landing = self._landing(own, wanted, topics)
        kept, metadata = self._kept(own, wanted)
        state = None if metadata is None else java.state_of(metadata, wanted.stream, str(spec.sink.table))
        begin = self._judge(wanted, kept, state, landing, inlets, topics.now())
        if metadata is not None:
            self._beside(wanted, kept, metadata, topics.now())
        references = References(wanted.stream, spec.reference)
        built = flow.build(own, spec, inlets, references.frames(own), begin)
        notes = _fits(own, wanted, kept, state.position if state is not None else None, built)
        if isinstance(landing, IcebergLanding):
            landing.writer.stateful = built.stateful
        with self._creating:  # streams start side by side, and two cannot create one namespace at once
            self._prepare(own, spec, built)
        gate = Gate()
        function = BatchFunction(
            session=own,
            stream=wanted.stream,
            generation=wanted.generation,
            flow=built,
            landing=landing,
            gate=gate,
            references=references,
            quarantine_table=str(spec.quarantine.table) if spec.quarantine else None,
            report=self.report,
        )
        listener = self.listener(wanted)
        own.streams.addListener(listener)
        # Jobs of one stream wait for its own only. The property is this thread's; the query's thread inherits it.
        own.sparkContext.setLocalProperty("spark.scheduler.pool", wanted.stream)
        query = (
            built.query.writeStream.queryName(wanted.stream)
            .foreachBatch(function)
            .outputMode("append")
            .option("checkpointLocation", wanted.checkpoint)
            .trigger(processingTime=_interval(spec))
            .start()
        )
        _log.info(
            "stream started",
            stream=wanted.stream,
            generation=wanted.generation,
            checkpoint=begin.finding,
            shape="with state" if built.stateful else "row by row",
            lineage=built.lineage,
            query_id=str(query.id),
            seconds=round(time.monotonic() - began, 2),
        )
        return Running(
            wanted=wanted,
            query=query,
            function=function,
            gate=gate,
            references=references,
            finding=begin.finding,
            session=own,
            listener=listener,
            files=checkpoint.files_of(own, wanted.checkpoint),
            notes=tuple(notes),
            at=dict(begin.at),
        )

    def _landing(self, own: SparkSession, wanted: Wanted, topics: _Topics) -> Landing:
        spec = wanted.spec
        sources = [str(name) for name in spec.sources]
        if spec.sink.iceberg is not None:
            sink = spec.sink.iceberg
            if sink.mode != "append" or sink.commit != "exact":
                raise SpecError(
                    f"Stream {spec.id} cannot be run yet", why=f"iceberg mode {sink.mode}, commit {sink.commit}"
                )
            return IcebergLanding(
                ExactAppend(
                    session=own,
                    stream=wanted.stream,
                    table=str(sink.table),
                    query_name=wanted.stream,
                    sources=sources,
                    generation=wanted.generation,
                    topic_ids=topics.now,
                )
            )
        if spec.sink.kafka is not None:
            broker.bootstrap_of(spec.sink.kafka.connection, self.runtime.kafka)
            stream = wanted.stream
            return KafkaLanding(own, stream, sources, spec.sink.kafka, self.runtime.kafka, lambda: self.held(stream))
        raise SpecError(f"Stream {spec.id} cannot be run yet", why=f"sink {spec.sink.connector} is not built")

    def _kept(self, own: SparkSession, wanted: Wanted) -> tuple[Checkpoint, Any]:
        """The checkpoint, and the table's metadata (None without a table); refused if another stream has the first."""
        others = self.declared() or {}
        places = {name: self.runtime.checkpoint_of(recorded) for name, recorded in others.items()}
        shared = neighbours.sharing(wanted.stream, wanted.checkpoint, places)
        if shared is not None:
            shared.check()
        files = checkpoint.files_of(own, wanted.checkpoint)
        return checkpoint.read(files, wanted.checkpoint), self._metadata(own, wanted.spec)

    def _judge(
        self,
        wanted: Wanted,
        kept: Checkpoint,
        state: TableState | None,
        landing: Landing,
        inlets: list[flow.Inlet],
        topic_ids: dict[str, str],
    ) -> flow.Start:
        """Compare checkpoint, table and broker before anything runs: where the query begins, if it may."""
        position = state.position if state is not None else None
        verdict = preflight.classify(wanted.stream, kept, position, exact=landing.exact, known_query=wanted.known_query)
        finding = verdict.check()
        if state is not None:
            # The next batch as it will be if all is well: what blocks it is said now, not when it comes.
            next_batch = RunningBatch("", -1, position.end, position.end, topic_ids) if position is not None else None
            halt = check_table(state) if next_batch is None else decide(state, next_batch)
            if isinstance(halt, Halt):
                raise halt.error()
        if isinstance(landing, IcebergLanding):
            landing.writer.expect(state.raw if state is not None else None)
        ends = position.end if position is not None else preflight.ends_of(kept, [inlet.name for inlet in inlets])
        for inlet in inlets:
            at = ends.get(inlet.name)
            if at is not None:
                continuity.check(
                    wanted.stream,
                    at,
                    broker.begin_offsets(inlet.bootstrap, list(topic_ids)),
                    broker.end_offsets(inlet.bootstrap, list(topic_ids)),
                )
        return flow.Start(str(finding), finding is preflight.Finding.FRESH, _goes_on(position), ends)

    def _beside(self, wanted: Wanted, kept: Checkpoint, metadata: Any, topic_ids: dict[str, str]) -> None:
        """Refuse what another stream, or the table's own folder, stands in the way of."""
        stream, name = wanted.stream, str(wanted.spec.sink.table)
        found = neighbours.nested(stream, wanted.checkpoint, name, str(metadata.location()))
        fresh = kept.empty and metadata.properties().get(key(stream)) is None
        declared = self.declared() if fresh else None
        if found is None and declared is not None:
            landed = java.others_of(metadata, stream, name)
            found = neighbours.renamed(stream, kept, name, landed, declared, topic_ids)
        if found is not None:
            found.check()

    def _metadata(self, own: SparkSession, spec: StreamSpec) -> Any:
        name = spec.sink.table
        if name is None:
            return None
        try:
            # Loaded by its name first: a catalog that cannot be loaded counts as none for Spark, which then takes
            # `lake` for a namespace and complains of that.
            own._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
            if not own.catalog.tableExists(quote_table(str(name), CATALOG)):
                return None
        except Exception as error:
            if java.trouble(error) in (java.Trouble.UNREACHABLE, java.Trouble.UNKNOWN):
                raise java.catalog_down(str(name), error) from error
            raise
        return java.metadata_of(java.load(own, str(name)))

    def _prepare(self, own: SparkSession, spec: StreamSpec, built: Flow) -> None:
        """Create the tables, or check that the sink's fits."""
        sink = spec.sink.iceberg
        if sink is not None:
            self._prepare_sink(own, spec, sink, built)
        if spec.quarantine is not None:
            quarantine.create(own, str(spec.quarantine.table))

    def _prepare_sink(self, own: SparkSession, spec: StreamSpec, sink: IcebergSink, built: Flow) -> None:
        fields = [str(each) for each in sink.partition_by]
        if table.create(own, str(sink.table), built.columns, fields, sink.properties):
            _log.info("table created", stream=spec.id, table=str(sink.table), partition_by=fields)
            return
        there = own.table(quote_table(sink.table, CATALOG)).schema
        given = {field.name: field.dataType.simpleString() for field in built.columns.fields}
        has = {field.name: field.dataType.simpleString() for field in there.fields}
        schema.check(spec.id, str(sink.table), given, has, lambda name: _casts(own, given[name], has[name]))


class _Topics:
    """The topic ids of a stream's sources, asked again when the last answer is old."""

    def __init__(self, inlets: list[flow.Inlet]) -> None:
        self._inlets = inlets
        self._known: dict[str, str] = {}
        self._until = 0.0

    def now(self) -> dict[str, str]:
        if time.monotonic() >= self._until:
            found: dict[str, str] = {}
            for inlet in self._inlets:
                if inlet.spec.kafka is not None:
                    found |= broker.topic_ids(inlet.bootstrap, inlet.spec.kafka)
            self._known, self._until = found, time.monotonic() + TOPICS_EVERY_S
        return self._known


def _fits(own: SparkSession, wanted: Wanted, kept: Checkpoint, position: Position | None, built: Flow) -> list[str]:
    """Refuse a checkpoint that is not this query's; gives what a person should know all the same."""
    by_name = {inlet.name: inlet for inlet in built.inlets}
    sources = []
    for name in offsets.order_of(built.query, list(by_name)):
        spec = by_name[name].spec.kafka
        topics = frozenset(str(topic) for topic in spec.topics) if spec is not None else frozenset[str]()
        sources.append(fit.SourceNow(name, topics))
    query = fit.Query(sources, built.stateful)
    found = fit.judge(wanted.stream, kept, position, query)
    if found is not None:
        found.check()
    notes = fit.notes(kept, query, {name: own.conf.get(name, None) for name in kept.conf})
    for note in notes:
        _log.warning("checkpoint noted", stream=wanted.stream, note=note)
    return notes


def _goes_on(position: Position | None) -> dict[str, str]:
    """Where a new checkpoint begins: at the position, if an operation set it and not a query."""
    if position is None or position.query_id:
        return {}
    return {source: end for source, end in position.end.items() if end != NO_DATA}


def _interval(spec: StreamSpec) -> str:
    every = spec.trigger.every
    if every is None:
        raise SpecError(f"Stream {spec.id} cannot be run yet", why=f"trigger {spec.trigger.kind} is not built")
    return str(every.spark)


def _casts(own: SparkSession, given: str, has: str) -> bool:
    """Whether Spark stores one type in the other without a possible loss."""
    jvm: Any = own._jvm
    parse = jvm.org.apache.spark.sql.types.DataType.fromDDL
    return bool(jvm.org.apache.spark.sql.catalyst.expressions.Cast.canUpCast(parse(given), parse(has)))
