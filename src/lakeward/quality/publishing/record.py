"""What becomes of a result: kept in the registry, then the branch moved, then copied into the lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from lakeward.quality.publishing import audit_tags, pointer, verified
from lakeward.quality.publishing.verified import Move
from lakeward.quality.ranges.range import Range, decide
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.results import incident, results_table
from lakeward.quality.results.json_values import sentence
from lakeward.quality.results.records import Result
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.formats import LakeTable
from lakeward.quality.runs.observe import proven
from lakeward.quality.runs.order import Order, proves_nothing
from lakeward.quality.verdicts import waive
from lakeward.quality.verdicts.verdict import Check, Effect, State
from lakeward.quality.verdicts.waivers import named
from lakeward.registry import events, verifications

log = structlog.get_logger(__name__)


def repaired(found: Range, history: History, of: LakeTable, engines: Engines) -> History:
    """The branch brought in line with the results, before anything is checked."""
    planned = verified.settle(history, found.base)
    if planned.to is None:
        return history

    def settle(now: History) -> Move:
        """On results read after the metadata: a run beside this one may have proven more and moved the branch."""
        with engines.registry() as connection:
            return verified.settle(now, decide(now, proven(connection, found.table)).base)

    done, stands = _moved(of, engines, settle)
    if done.to is None:
        return replace(history, verified=stands)
    log.warning(f"{found.table}: verified {done.why}", table=found.table, verified_snapshot=stands)
    with engines.keeping() as connection:
        events.record(connection, "table", found.table, "verified_repaired", f"verified {done.why}")
    return replace(history, verified=stands)


def published(result: Result, of: LakeTable, order: Order, engines: Engines) -> Result:
    """Keep the result, then move the branch: a proof without a branch is repaired, a branch without a proof is not."""
    head = result.found.head
    moves = head is not None and result.verdict.publishes
    reason = proves_nothing(order, order.suites[result.table])
    if moves and reason:
        log.info(
            f"{result.table}: verified stays at {result.found.noun} {result.verified}: {reason}", table=result.table
        )
        result, moves = (
            replace(result, note="; ".join(filter(None, [f"verified did not move: {reason}", result.note]))),
            False,
        )
    if moves and head is not None:
        result = replace(result, verified=head.id)
    with engines.keeping() as connection:
        verifications.record(connection, result.row(), result.check_rows())
        waive.judged(connection, result.table, result.checks)
        if order.own_suite:
            incident.after_run(connection, result)
    if not moves or head is None:
        return result
    done, stands = _moved(of, engines, _onward(head.id, order, result.table, engines), result.run)
    tagged = f"; tag {done.tag.name} keeps where it stood when that day was over" if done.tag else ""
    log.info(f"{result.table}: verified is at {result.found.noun} {stands} ({done.why}){tagged}", table=result.table)
    pointer.bring(engines, order.suites[result.table], stands)
    return replace(result, verified=stands)


def _onward(checked: int, order: Order, table: str, engines: Engines) -> Callable[[History], Move]:
    """Moves the branch to the snapshot that was checked, and leaves the tag of a day that is over where it stood."""
    keep = order.suites[table].audit_tags
    if keep is None:
        return lambda now: verified.advance(now, checked)
    with engines.registry() as connection:
        proven = verifications.proof_before(connection, table, audit_tags.today(order.now))

    def onward(now: History) -> Move:
        decided = verified.advance(now, checked)
        left = audit_tags.tag(now, proven, order.now, keep.timedelta) if decided.to is not None else None
        return replace(decided, tag=left)

    return onward


def _moved(
    of: LakeTable, engines: Engines, decide: Callable[[History], Move], run: str | None = None
) -> tuple[Move, int | None]:
    """Move the branch while the run is ours. Between this look and the commit others may take the run over: what
    they move by then refuses our commit (ADR 56); through Spark, they end our session, and the statement with it."""

    def ours(now: History) -> Move:
        engines.prove()
        return decide(now)

    def others() -> list[dict[str, Any]]:
        with engines.registry() as connection:
            return [each for each in verifications.proofs(connection, of.name) if each["run"] != run]

    return of.move(lambda: engines.session, ours, others)


def let_through(checks: Sequence[Check]) -> str:
    """What a waiver lets through, as a sentence for the result; empty when nothing."""
    told = [
        f"{named(check.expectation, check.kwargs)} failed and does not hold: {check.excuse.text}"
        for check in checks
        if check.state in (State.FAIL, State.ERROR) and check.excuse is not None and check.own_effect is Effect.HOLD
    ]
    return "; ".join(told)


def into_the_lake(order: Order, engines: Engines) -> None:
    """The recorded results as rows of the lake's own table. What fails stays recorded, and comes with the next run."""
    try:
        engines.prove()
        with engines.registry() as connection:
            count = results_table.publish(connection, engines.lake)
        if count and order.keep is not None:
            results_table.remove_before(engines.lake, order.now - order.keep)
    except Exception as error:  # noqa: BLE001 - a copy for queries: the verdict stands in the registry and on the branch
        said = sentence(f"{type(error).__name__}: {error}")
        log.warning(f"{results_table.TABLE} did not get the results, the next run tries again: {said}")
