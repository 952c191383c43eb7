"""Execution of a backfill: batch by batch from its position to its end, each by the commit protocol of a stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.source import StreamSource
from lakeward.engine.assignment import Assignment
from lakeward.engine.references import References
from lakeward.engine.routing import RowRouter
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.operations.backfill.range import BackfillRange, TopicRange
from lakeward.operations.backfill.write_strategy import WriteStrategy
from lakeward.platform.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Report:
    """Result of a backfill.

    Attributes:
        stream, generation: the stream and the generation that processed the range.
        into, position: the table and the name of the position in it.
        start, end: canonical offsets: from (inclusive) and to (exclusive).
        begun: position of an earlier run of the backfill; None for a new one.
        batches, consumed, landed, quarantined, filtered: of this run; `filtered` is None if rows and records do not
            correspond.
        done: whether the whole range has landed.
        windows: the windows that are replaced, if windows are repaired.
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
    windows: str | None = None


@dataclass(frozen=True)
class Work:
    """A backfill, ready to run."""

    own: SparkSession
    assignment: Assignment
    source: StreamSource
    sink: IcebergStreamSink
    router: RowRouter
    references: References
    exact_count: bool
    backfill_range: BackfillRange
    strategy: WriteStrategy

    def run(self, report: Report, begun: Position | None, report_progress: Callable[[Report], None]) -> Report:
        """Land batch by batch up to the end of the range."""
        at, number = (begun.end[self.source.name], begun.batch + 1) if begun else (report.start, 0)
        while (upto := self.backfill_range.next(at)) is not None:
            report = self._land(report, number, at, upto)
            at, number = upto, number + 1
            report_progress(report)
        return replace(report, done=True)

    def _land(self, report: Report, number: int, start: str, end: str) -> Report:
        name = self.source.name
        batch = RunningBatch(report.position, number, {name: start}, {name: end}, self.source.ids())
        self.sink.writer.planned = lambda _: batch
        quarantine_sink = self.assignment.spec.quarantine
        self.backfill_range.before(start, end)
        with ExitStack() as held:
            self.strategy.aim(self.sink, start, end)
            raw = self.strategy.chosen(self.source.again(self.own, start, end))
            routed = self.router.by_row(raw, self.references.frames(self.own), held)
            routed = self.strategy.sorted(routed, self.exact_count)
            bad = sum(rows for _, rows, _ in routed.bad)
            if bad and quarantine_sink is None:
                raise Refused(
                    f"Stream {self.assignment.stream}: {bad} invalid rows and no quarantine table configured",
                    why=f"the rows are of records between {start} and {end}",
                    next="add quarantine: {table: namespace.table} to the stream's file, then: lakeward deploy",
                    code="LW-2011",
                )

            def put_in_quarantine() -> None:
                self.backfill_range.unchanged(start, end)
                for bad_rows, rows, identity in routed.bad:
                    if rows and quarantine_sink is not None:
                        placed, whose = (
                            self.backfill_range.placed(bad_rows, start, end),
                            self.strategy.named(report.position),
                        )
                        quarantine.insert(
                            placed, str(quarantine_sink.table), whose, identity, self.assignment.generation
                        )

            counted = Counted(routed.consumed, bad, traced=self.exact_count)
            outcome = self.sink.land(routed.good, number, counted, put_in_quarantine, None)
        _log.info(
            "backfill batch landed", stream=self.assignment.stream, position=report.position, batch=number, upto=end
        )
        lost = report.filtered is None or outcome.filtered is None
        return replace(
            report,
            batches=report.batches + 1,
            consumed=report.consumed + routed.consumed,
            landed=report.landed + outcome.landed,
            quarantined=report.quarantined + bad,
            filtered=None if lost else (report.filtered or 0) + (outcome.filtered or 0),
        )


def topics(assignment: Assignment, source: StreamSource, start: str, end: str, times: int = 1) -> TopicRange:
    """A range of topics, in batches `times` as large as those of the stream."""
    kafka = assignment.spec.source.kafka
    return TopicRange(source, start, end, times * ((kafka and kafka.max_offsets_per_trigger) or 0))
