"""One check run over the due tables: decide the range, check, judge, record, publish. Runs in the checking process."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import SpecError
from lakeward.quality.delta.table import DeltaTable
from lakeward.quality.engine.checking import check, first_bad, with_first_batches
from lakeward.quality.publishing import pointer
from lakeward.quality.publishing.record import publish_results, record_and_publish, repair_branch, waived_failures
from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.batches import batches_of
from lakeward.quality.ranges.first_bad import known_before
from lakeward.quality.ranges.range import Kind, Range
from lakeward.quality.results import incident
from lakeward.quality.results.json_values import masked, sentence
from lakeward.quality.results.records import Result, by_stream
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.observe import observe
from lakeward.quality.runs.order import INCREMENT, RunOrder
from lakeward.quality.suite.configured import ConfiguredCheck, configure
from lakeward.quality.verdicts import quarantined, waive
from lakeward.quality.verdicts.verdict import State, Verdict, verdict
from lakeward.quality.verdicts.waivers import name_of
from lakeward.registry import verifications
from lakeward.registry.check_runs import Fenced
from lakeward.spec.checks.files import ONLY_ICEBERG, of_branches

if TYPE_CHECKING:
    from lakeward.spec.model.suite import Suite

log = structlog.get_logger(__name__)


def run(order: RunOrder, engines: Engines) -> list[Result]:
    """Check the tables in order. A table that cannot be checked does not stop the others.

    Raises:
        Fenced: another process has taken the run over.
    """
    results = []
    with engines.keeping() as connection:
        for waiver in waive.report_ended(connection):
            log.warning(waiver)
    for table in order.tables if order.tables is not None else sorted({*order.suites, *order.invalid}):
        engines.prove()
        result = attempt(f"check of {table}", partial(_checked, table, order, engines), through=(Fenced,))
        if isinstance(result, Failure):  # an engine error is a verdict, never a pass
            result = _broken(table, order, engines, result)
        if result is not None:
            results.append(result)
    publish_results(order, engines)
    return results


def _checked(table: str, order: RunOrder, engines: Engines) -> Result | None:
    if table in order.invalid:
        raise SpecError(
            f"Table {table} cannot be checked",
            why=order.invalid[table],
            next="lakeward quality lint",
            code="LW-5148",
        )
    return _table(table, order.suites[table], order, engines)


def _table(table: str, suite: Suite, order: RunOrder, engines: Engines) -> Result | None:
    began, jobs, cpu = time.monotonic(), engines.jobs, time.process_time()
    known = observe(table, suite, order, engines)
    found, newest = known.found, known.newest
    history = (
        repair_branch(found, known.history, known.of, engines)
        if found is not None and known.history is not None
        else None
    )
    if isinstance(known.of, DeltaTable) and (key := of_branches(suite)):
        raise SpecError(
            f"The suite of {table} cannot use {key}",
            why=ONLY_ICEBERG,
            next=f"remove {key} from expectations/{table}.yaml (docs/how-to/read-proven-data.md)",
            code="LW-5018",
        )
    if history is not None and order.own_suite:
        pointer.update_pointer(engines, suite, history.verified)
    if order.tables is None and not (schedule := known.due(suite)).due:
        log.info("Table not due for a check", table=table, why=schedule.why)
        return None
    if history is None or found is None:
        raise metadata.no_table(table)  # requested by name, or checked before: the table is missing
    configured = configure(suite, order.scope, known.excused, order.files.get(table))
    _over(table, configured, known.waived_then)
    blank = Result(
        run=f"{order.now:%Y%m%dT%H%M%S}-{uuid4().hex[:6]}",
        at=datetime.now(UTC),
        table=table,
        suite=suite.digest,
        scope=order.scope or INCREMENT,
        found=found,
        verdict=Verdict.PASS,
        verified=history.verified,
    )
    if found.kind is Kind.EMPTY and order.scope in (None, INCREMENT) and order.own_suite:
        log.info("Nothing to check", table=table, why=found.why)
        last_proof = next(iter(known.proofs), None)
        skipped = tuple(check.blank(State.SKIPPED, found.why) for check in configured)
        last_verdict = Verdict(last_proof["verdict"]) if last_proof else Verdict.PASS
        return replace(blank, verdict=last_verdict, checks=skipped, note=found.why)
    count, why = found.rows, found.why
    if order.scope == "table" and found.head is not None:
        count, why = found.head.total, "the whole table, as requested"
    log.info(
        "Check run started", table=table, why=why, rows=count, checks=len(configured), to_snapshot=history.head
    )  # fmt: skip
    if order.own_suite and found.base is not None and newest is not None and newest["suite"] != suite.digest:
        log.info(
            "Suite changed since the last run; older rows were checked by the old suite",
            table=table,
            checked_to=found.base.snapshot,
            next=f"lakeward quality run {table} --scope table   checks all rows",
        )
    checks = masked(check(known.of, found, history, configured, order.now, engines, order.patience_s), suite.mask)
    judged = verdict(checks)
    with engines.registry() as connection:
        landed = by_stream(batches_of(connection, found.writes), found.writes)
        quarantine_note = quarantined.describe(connection, found, history)
    first, untold = (None, "")
    if judged is not Verdict.PASS:
        first = known_before(found, {check.id for check in checks if check.state is State.FAIL}, known.before)
        if first is None:
            first, untold = first_bad(known.of, found, history, configured, checks, engines)
    result = replace(
        blank,
        checks=tuple(checks),
        verdict=judged,
        note="; ".join(filter(None, [quarantine_note, waived_failures(checks) if judged.publishes else "", untold])),
        batches=landed,
        first_bad=first,
    )
    result = with_first_batches(result, engines)
    result = replace(
        result,
        spark_jobs=engines.jobs - jobs,
        duration_s=time.monotonic() - began,
        cpu_s=time.process_time() - cpu,
    )
    return record_and_publish(result, known.of, order, engines)


def _over(table: str, configured: Sequence[ConfiguredCheck], waived_then: Collection[str]) -> None:
    """Log which waivers ended, so that failures count again."""
    for item in configured:
        if item.id in waived_then and item.excuse is None:
            name = name_of(item.expectation)
            log.warning("Waiver ended; failures count again", table=table, name=name, check=item.id)


def _broken(table: str, order: RunOrder, engines: Engines, failure: Failure) -> Result:
    """The result of a table that could not be checked: recorded as an error if the registry answers, always logged."""
    text = sentence(failure.words)
    nothing = Range(table, Kind.EMPTY, None, None, (), text)
    result = Result(
        run=f"{order.now:%Y%m%dT%H%M%S}-{uuid4().hex[:6]}",
        at=datetime.now(UTC),
        table=table,
        suite=order.suites[table].digest if table in order.suites else "",
        scope=order.scope or INCREMENT,
        found=nothing,
        verdict=Verdict.ERROR,
        note=text,
    )
    log.error("Table could not be checked", table=table, error=text, kind=failure.kind)
    with engines.keeping() as connection:
        verifications.record(connection, result.row(), [])
        # An unreachable dependency has its own incident. A suite given for one run has no later run to close one.
        if order.own_suite and not failure.transient:
            incident.after_run(connection, result)
    return result
