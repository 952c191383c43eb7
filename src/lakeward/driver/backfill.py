"""A bounded range of a stream's source, landed once beside the running stream, under a position of its own.

The records go through the same decoding, transform, rules and commit protocol as those of a batch; only who plans the
batches is another: this module, from the position in the table, in steps as large as the stream's own. So whoever is
killed leaves a position, and the next one goes on from there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors import inlets
from lakeward.connectors.exact.attempt import ATTEMPTS, pause
from lakeward.connectors.exact.batch import Counted, RunningBatch
from lakeward.connectors.exact.position import Position, key
from lakeward.connectors.iceberg import java, publish, quarantine
from lakeward.connectors.iceberg.change import Upsert
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.source import Inlet
from lakeward.driver import flow, session
from lakeward.driver.backfillable import name_of, next_end, suited
from lakeward.driver.landing.choose import choose
from lakeward.driver.landing.iceberg import IcebergLanding
from lakeward.driver.references import References
from lakeward.driver.sorting import Sorter
from lakeward.driver.wanted import Wanted
from lakeward.errors import Refused
from lakeward.runtime import CATALOG
from lakeward.spec.sql import quote_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeward.runtime import Runtime

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Report:
    """What a backfill did.

    Attributes:
        stream, generation: whose, by which spec.
        into, position: the table, and the name of the position in it.
        start, end: canonical offsets: from (inclusive) and to (exclusive).
        begun: how far an earlier run of it had come; None for a new one.
        batches, consumed, landed, quarantined, filtered: of this run; `filtered` is None where rows and records do not
            correspond.
        done: whether the range is landed whole.
    """

    stream: str
    generation: int
    into: str
    position: str
    start: str
    end: str
    begun: str | None = None
    batches: int = 0
    consumed: int = 0
    landed: int = 0
    quarantined: int = 0
    filtered: int | None = 0
    done: bool = False


def backfill(
    spark: SparkSession,
    wanted: Wanted,
    runtime: Runtime,
    start: str,
    end: str,
    *,
    into: str | None = None,
    named: str | None = None,
    dry_run: bool = False,
    tell: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Land a range of the source. Safe to call again with the same range: it goes on where it came to.

    Args:
        spark: a session with the lake's catalog.
        wanted: the stream's current generation.
        start, end: canonical offsets of its source, from (inclusive) and to (exclusive), of the same partitions.
        into: another table than the stream's; made when it is not there.
        named: the position's name, where the caller answers for what else is in the table.
        dry_run: change nothing.
        tell: takes the report after each batch.

    Raises:
        Refused: rows could land twice, or the stream's range cannot be worked on its own.
        SpecError: the transform does not fit the table or the records.
        Fenced: another run of the same backfill landed a batch.
        Blocked: the table was rolled back, replaced or dropped.
        Transient: the table kept changing, or the catalog does not answer.
    """
    spec = wanted.spec
    suited(spec, into)
    own = session.for_stream(spark, spec)
    (inlet,) = inlets.of(spec, runtime)
    table = into or str(spec.sink.label)
    name, begun = (named, None) if named else _choose(own, wanted, table, start, alone=into is not None)
    report = Report(
        wanted.stream, wanted.generation, table, name, start, end, begun=begun.end[inlet.name] if begun else None
    )
    if dry_run:
        return report
    landing = choose(own, _aimed(wanted, name, table), runtime, inlet.ids, lambda: None, {inlet.name: inlet.canonical})
    assert isinstance(landing, IcebergLanding)
    standing = landing.look(inlet.ids())
    if standing.halt is not None:
        raise standing.halt.error()
    begun = standing.position
    report = replace(report, begun=begun.end[inlet.name] if begun else None)
    references = References(wanted.stream, spec.reference, runtime)
    try:
        built = flow.build(own, spec, [inlet], references.frames(own), flow.Start("fresh", fresh=True))
        if built.stateful:
            raise Refused(
                f"Stream {wanted.stream} cannot be backfilled yet",
                why="it keeps state: windows of a range on its own would lack what came before it",
                next=f"lakeward streams reset {wanted.stream} --to TIME   reads the stream itself again",
            )
        if into is None:
            landing.as_it_is(built.columns)
            if isinstance(landing.writer.change, Upsert):
                landing.writer.change = replace(landing.writer.change, ties=False)
        else:
            landing.prepare(built.columns, stateful=False)
        landing.writer.stateful = False
        if spec.quarantine is not None:
            quarantine.create(own, str(spec.quarantine.table))
        work = _Work(own, wanted, inlet, landing, Sorter(wanted.stream, built), references, built.lineage == "rows")
        done = work.run(report, begun, tell)
        if into is None:
            _forget(own, table, name)
        return done
    finally:
        references.release()


@dataclass(frozen=True)
class _Work:
    """A backfill, made ready."""

    own: SparkSession
    wanted: Wanted
    inlet: Inlet
    landing: IcebergLanding
    sorter: Sorter
    references: References
    exact_count: bool

    def run(self, report: Report, begun: Position | None, tell: Callable[[Report], None]) -> Report:
        """Batch by batch up to the end."""
        at, number = (begun.end[self.inlet.name], begun.batch + 1) if begun else (report.start, 0)
        kafka = self.wanted.spec.source.kafka
        most = (kafka and kafka.max_offsets_per_trigger) or 0
        while True:
            to = next_end(kafka_position.parse(at), kafka_position.parse(report.end), most)
            if to is None:
                return replace(report, done=True)
            upto = kafka_position.render(to)
            report = self._land(report, number, at, upto)
            at, number = upto, number + 1
            tell(report)

    def _land(self, report: Report, number: int, start: str, end: str) -> Report:
        name = self.inlet.name
        batch = RunningBatch(report.position, number, {name: start}, {name: end}, self.inlet.ids())
        self.landing.writer.planned = lambda _: batch
        aside = self.wanted.spec.quarantine
        with ExitStack() as held:
            raw = self.inlet.again(self.own, start, end)
            found = self.sorter.by_row(raw, self.references.frames(self.own), held)
            bad = sum(each for _, each, _ in found.bad)
            if bad and aside is None:
                raise Refused(
                    f"Stream {self.wanted.stream} has {bad} bad rows in this range and nowhere to put them",
                    why=f"between {start} and {end}",
                    next="add quarantine: {table: namespace.table} to the stream's file, then: lakeward deploy",
                )

            def put_aside() -> None:
                for kept, rows, identity in found.bad:
                    if rows and aside is not None:
                        quarantine.insert(kept, str(aside.table), report.position, identity, self.wanted.generation)

            counted = Counted(found.consumed if self.exact_count else None, bad)
            outcome = self.landing.land(found.good, number, counted, put_aside if bad else None, None)
        _log.info("range landed", stream=self.wanted.stream, position=report.position, batch=number, upto=end)
        lost = report.filtered is None or outcome.filtered is None
        return replace(
            report,
            batches=report.batches + 1,
            consumed=report.consumed + found.consumed,
            landed=report.landed + outcome.landed,
            quarantined=report.quarantined + bad,
            filtered=None if lost else (report.filtered or 0) + (outcome.filtered or 0),
        )


def _choose(own: SparkSession, wanted: Wanted, table: str, start: str, *, alone: bool) -> tuple[str, Position | None]:
    """The backfill's name, and its position where an earlier run left one."""
    others: Mapping[str, Position] = {}
    rows = False
    if own.catalog.tableExists(quote_table(table, CATALOG)):
        metadata = java.metadata_of(java.load(own, table))
        others = java.others_of(metadata, "", table)
        rows = metadata.currentSnapshot() is not None
    source = str(next(iter(wanted.spec.sources)))
    return name_of(wanted.stream, wanted.generation, table, others, {source: start}, alone=alone, rows=rows)


def _forget(own: SparkSession, table: str, name: str) -> None:
    """Take the position out of the stream's own table: it has done its work, and would pass for a stream's.

    To land the range again changes nothing, for no row replaces one that is as new.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        raw = java.metadata_of(java.load(own, table)).properties().get(key(name))
        if raw is None:
            return
        try:
            publish.remove_position(own, table, name, raw)
        except publish.PositionMoved:
            continue
        except Exception as error:
            if java.trouble(error) not in (java.Trouble.COMMIT_FAILED, java.Trouble.UNKNOWN):
                raise
        else:
            return
    _log.warning("the backfill's position stays in the table", table=table, position=name)


def _aimed(wanted: Wanted, name: str, table: str) -> Wanted:
    """The same spec into another table, under the backfill's name."""
    document: dict[str, Any] = copy.deepcopy(json.loads(json.dumps(dict(wanted.document))))
    document["sink"]["iceberg"]["table"] = table
    return Wanted(name, wanted.generation, document, "")
