"""backfill operation: options, plan and outcome."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeward.connectors.files import listing
from lakeward.connectors.kafka.position import parse
from lakeward.engine.assignment import Assignment
from lakeward.operations import reset_target
from lakeward.operations.backfill import backfill as landing
from lakeward.operations.backfill import range as ranges
from lakeward.operations.backfill.eligibility import next_end, overwritable, repairable, suited
from lakeward.operations.backfill.range import FilesRange
from lakeward.operations.backfill.windows import MARGIN
from lakeward.operations.backfill.work import Report
from lakeward.operations.context import Context
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.request import Outcome, Plan, Request
from lakeward.platform.errors import SpecError
from lakeward.registry import generations, streams
from lakeward.tables.guard import readers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeward.spec.model.stream import StreamSpec


@dataclass(frozen=True)
class Files:
    """Files to land instead of records of the source.

    Attributes:
        pattern: a file, a folder or a pattern.
        since, until: bounds of their modification times; None: no bound.
        kind: format of the files; None: by their names.
        per_batch: files in one batch.
    """

    pattern: str
    since: datetime | None = None
    until: datetime | None = None
    kind: str | None = None
    per_batch: int | None = None


@dataclass(frozen=True)
class Options:
    """Range and target of a backfill.

    Attributes:
        start, to: `earliest`, `latest`, a time or a file of offsets.
        into: another table than the stream's; created if missing.
        overwrite: replace the rows of the same records in the stream's table.
        windows: two event times; the windows between them are recomputed.
        margin: with windows: records are read from this long before the first time on.
        files: land these files instead.
    """

    start: str = "earliest"
    to: str = "latest"
    into: str | None = None
    overwrite: bool = False
    windows: tuple[datetime, datetime] | None = None
    margin: timedelta = MARGIN
    files: Files | None = None


@dataclass(frozen=True)
class BackfillPlan(Plan):
    """What would be landed.

    Attributes:
        assignment: the running generation.
        readers: streams that read the table incrementally.
        offsets: from (inclusive) and to (exclusive), if records of the source are landed.
        files: the files, listed once.
    """

    assignment: Assignment = field(kw_only=True, repr=False)
    readers: tuple[str, ...] = field(default=(), kw_only=True)
    offsets: tuple[str, str] | None = field(default=None, kw_only=True)
    files: FilesRange | None = field(default=None, kw_only=True)


class Backfill(Operation[BackfillPlan]):
    """Lands under its own position: repeated after a kill, it continues there.

    Takes no lock: the stream keeps running, and the position in the table fences a second backfill of the same range.

    Args:
        spark: opens a session with the lake's catalog for a spec.
        report_progress: takes the report after each batch.
    """

    name = "backfill"
    lock = Lock.NONE
    needs_comment = True

    def __init__(
        self,
        context: Context,
        request: Request,
        options: Options,
        spark: Callable[[StreamSpec], AbstractContextManager[SparkSession]],
        report_progress: Callable[[Report], None] = lambda report: None,
    ) -> None:
        super().__init__(context, request)
        self.options = options
        self.spark = spark
        self.report_progress = report_progress
        self._session: SparkSession | None = None

    def plan(self) -> BackfillPlan:
        """A dry run also reads the table, to report the position of an earlier run."""
        with self.context.connect() as connection:
            row = streams.get(connection, self.subject)
            generation = generations.of_streams(connection, {self.subject: row.generation})[self.subject]
            reading = readers.registered(connection)
        assignment = Assignment(self.subject, row.generation, generation.spec, generation.checkpoint)
        spec, options = assignment.spec, self.options
        growing = tuple(sorted({reader.stream for reader in reading.get(str(spec.sink.label), ())}))
        if options.windows is not None:
            repairable(spec, growing)
        elif options.overwrite:
            overwritable(spec, growing)
        else:
            suited(spec, options.into, files=options.files is not None)
        files = None if options.files is None else self._files(spec, options.files)
        offsets = self._offsets(spec) if files is None and options.windows is None else None
        into = options.into or str(spec.sink.label)
        plan = BackfillPlan(
            f"land the range in {into}", assignment=assignment, readers=growing, offsets=offsets, files=files
        )  # fmt: skip
        if not self.request.dry_run:
            return plan
        with self.resources(plan):
            report = self._land(plan, dry_run=True)
        return BackfillPlan(planned(report), data=data_of(report), assignment=assignment)

    @contextmanager
    def resources(self, plan: BackfillPlan) -> Iterator[None]:
        with self.spark(plan.assignment.spec) as self._session:
            yield

    def apply(self, plan: BackfillPlan, held: HeldLocks) -> Outcome:
        report = self._land(plan, dry_run=False)
        data = data_of(report)
        recorded = ("into", "position", "from", "to", "generation", "consumed", "landed")
        with self.context.connect() as connection:
            self.record_change(connection, {name: data[name] for name in recorded})
        return self.done(landed(report), data)

    def _land(self, plan: BackfillPlan, *, dry_run: bool) -> Report:
        spark, runtime, options = self._session, self.context.runtime, self.options
        if spark is None:
            raise RuntimeError("a backfill needs its resources open")
        if options.windows is not None:
            return landing.repair_windows(
                spark, plan.assignment, runtime, *options.windows, margin=options.margin, readers=plan.readers,
                dry_run=dry_run, report_progress=self.report_progress,
            )  # fmt: skip
        if plan.files is not None:
            return landing.backfill_files(
                spark,
                plan.assignment,
                runtime,
                plan.files,
                into=options.into,
                dry_run=dry_run,
                report_progress=self.report_progress,
            )
        if plan.offsets is None:
            raise RuntimeError("a plan of a backfill names offsets, files or windows")
        if options.overwrite:
            return landing.overwrite(
                spark,
                plan.assignment,
                runtime,
                *plan.offsets,
                readers=plan.readers,
                dry_run=dry_run,
                report_progress=self.report_progress,
            )
        return landing.backfill(
            spark,
            plan.assignment,
            runtime,
            *plan.offsets,
            into=options.into,
            dry_run=dry_run,
            report_progress=self.report_progress,
        )

    def _offsets(self, spec: StreamSpec) -> tuple[str, str]:
        """The range of the source, as canonical offsets.

        Raises:
            SpecError: the range is empty.
        """
        source = str(next(iter(spec.sources)))
        start, end = (
            reset_target.target_offsets(self.context, spec, bound, {})[source]
            for bound in (self.options.start, self.options.to)
        )
        if next_end(parse(start), parse(end), 0) is None:
            raise SpecError(
                f"The range of the backfill of stream {spec.id} is empty",
                why=f"--from is {start}, --to is {end}",
                next="give an earlier --from; a time is the one at which a record was written to the topic",
                code="LW-2006",
            )
        return start, end

    def _files(self, spec: StreamSpec, files: Files) -> FilesRange:
        """The files, listed once."""
        matches = listing.list_files(files.pattern, files.since, files.until)
        return ranges.of_files(spec, self.context.runtime, matches, files.kind, files.per_batch)


def data_of(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    data = asdict(report)
    data["from"], data["to"] = data.pop("start"), data.pop("end")
    return data


def planned(report: Report) -> str:
    """What would be landed, after "would"."""
    text = f"land {report.start} to {report.end} in {report.into} as {report.position}{_from_where(report)}"
    return text + (f"; {report.windows}" if report.windows else "")


def landed(report: Report) -> str:
    """What was landed."""
    if report.windows:
        read = f"read {report.start} to {report.end}"
        return f"{report.landed:,} rows of {report.into} recomputed, {read}: {report.windows}"
    if not report.batches:
        return f"{report.into} already has the range, as {report.position}"
    return (
        f"{report.landed:,} rows of {report.consumed:,} records landed in {report.into} as "
        f"{report.position}{_from_where(report)}; {report.quarantined:,} quarantined"
    )


def _from_where(report: Report) -> str:
    return f", continued from {report.begun}" if report.begun else ""
