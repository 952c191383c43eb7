"""Quarantine run of a check: move its failing rows and record who moved them and why. For people and for policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeward.operations.quarantine.remove import Failing, Report, quarantine_rows
from lakeward.platform.errors import SpecError
from lakeward.platform.text import word
from lakeward.quality.engine.failing_rows import condition
from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.frames import rows
from lakeward.quality.ranges.range import Kind, Range, Read, decide, reading
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.results.text import between
from lakeward.quality.verdicts import quarantine_policy
from lakeward.quality.verdicts import quarantined as quarantined_change
from lakeward.quality.verdicts.waivers import name_of
from lakeward.registry import changes, events, verifications

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlalchemy import Connection

    from lakeward.engine.assignment import Assignment
    from lakeward.platform.runtime import Runtime
    from lakeward.quality.ranges.snapshot_chain import History
    from lakeward.spec.model.suite import Expectation

Connect = Callable[[], AbstractContextManager["Connection"]]


@dataclass(frozen=True)
class QuarantineBy:
    """Who moves rows to quarantine, and why.

    Attributes:
        by: for people: `ada`, or `policy (expectations/nyc.flights.yaml)`.
        author, comment: recorded with the change.
        more: further fields of the change.
    """

    by: str
    author: str
    comment: str
    more: dict[str, Any]


def failing_rows(
    connect: Connect, runtime: Runtime, table: str, expectation: Expectation, *, by_policy: bool = False
) -> Failing:
    """The rows that fail a check, in the range that is unproven when they are read.

    Args:
        by_policy: apply the bounds of a policy, and refuse if proven rows fail.
    """
    name, scope = name_of(expectation), "table" if expectation.scope == "table" else "increment"

    def range_now() -> tuple[Range, History]:
        with connect() as connection:
            proofs = verifications.proofs(connection, table)
        history = metadata.history(metadata.catalog(runtime), table)
        return decide(history, [Mark(verifications.head_of(proof), proof["to_sequence"]) for proof in proofs]), history

    def unproven(spark: SparkSession) -> DataFrame:
        range_, history = range_now()
        read = reading(range_, history, scope, datetime.now(UTC))
        if read is None:
            raise SpecError(
                f"Table {table} has no unproven rows",
                why=range_.why,
                next=f"lakeward quality show {word(table)}",
                code="LW-2036",
            )
        return _rows(spark, table, read)

    def proven(spark: SparkSession) -> DataFrame | None:
        base = range_now()[0].base
        return None if base is None else _rows(spark, table, Read(None, base.snapshot))

    def bound(failing: int, of: int) -> str:
        range_, history = range_now()
        base = history.snapshots.get(range_.base.snapshot) if range_.base is not None else None
        # If the whole table is read, most of it is proven: the bound applies to the rest.
        return quarantine_policy.too_many(failing, of - (base.total or 0) if base and range_.kind is Kind.TABLE else of)

    arguments = ", ".join(f"{key}={value!r}" for key, value in expectation.kwargs.items() if key != "column")
    made = Failing(
        name, f"{name}({arguments})" if arguments else name, unproven, lambda frame: condition(frame, expectation)
    )
    return replace(made, bound=bound, proven=proven) if by_policy else made


def _rows(spark: SparkSession, table: str, read: Read) -> DataFrame:
    frame: DataFrame = rows(spark, table, read)  # type: ignore[arg-type]  # either kind of session reads
    return frame


def move_failing_rows(
    spark: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    failing: Failing,
    connect: Connect,
    by: QuarantineBy,
    *,
    readers: Sequence[str] = (),
    dry_run: bool = False,
) -> Report:
    """Move the rows, and record who did it and why.

    Raises:
        Refused, Blocked, Transient: as `quarantine_rows`.
    """
    table = assignment.spec.sink.label

    def fields(report: Report) -> dict[str, Any]:
        recorded = ("check", "moved", "records", "seq", "token", "quarantine")
        return {"stream": assignment.stream, **{key: asdict(report)[key] for key in recorded}, **by.more}

    # The change is recorded before the rows are removed, so that a kill in between leaves a record.
    def before(report: Report) -> None:
        with connect() as connection:
            changes.record(
                connection, "table", table, quarantined_change.CHANGE, author=by.author, comment=by.comment,
                text=sentence(report, by), **fields(report),
            )  # fmt: skip

    report = quarantine_rows(spark, assignment, runtime, failing, readers=readers, dry_run=dry_run, before=before)
    if report.seq is not None:
        with connect() as connection:
            events.record(connection, "table", table, quarantined_change.CHANGE, sentence(report, by), **fields(report))
    return report


def sentence(report: Report, by: QuarantineBy) -> str:
    """Sentence for people: check, number of rows, tables, offsets, author, and what can be replayed."""
    rows = quarantine_policy.failing(report.moved, report.check)
    text = f"{rows} moved from {report.table} to {report.quarantine} by {by.by}"
    if report.end is not None:
        text += f", of offsets {between(report.start, report.end)}"
    text += f": {by.comment}; " if by.comment else "; "
    if report.records == report.moved:
        return (
            f'{text}to land them after a correction: lakeward quality replay {word(report.table)} --comment "corrected"'
        )
    return (
        f"{text}{report.records:,} of them can be replayed; the rest cannot be replayed: their records expired at the "
        "source"
    )
