"""Records a check result: in the registry first, then on the branch `verified`, then in the results table of the
lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

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
from lakeward.quality.runs.order import RunOrder, proves_nothing
from lakeward.quality.verdicts import waive
from lakeward.quality.verdicts.verdict import Check, Effect, State
from lakeward.quality.verdicts.waivers import named
from lakeward.registry import events, verifications
from lakeward.registry.verifications import Verification

log = structlog.get_logger(__name__)


def repair_branch(found: Range, history: History, of: LakeTable, engines: Engines) -> History:
    """Repair the branch from the recorded results, before anything is checked."""
    planned = verified.settle(history, found.base)
    if planned.to is None:
        return history

    def settle(now: History) -> Move:
        """Uses results read after the metadata: a concurrent run may have proven more and moved the branch."""
        with engines.registry() as connection:
            return verified.settle(now, decide(now, proven(connection, found.table)).base)

    done, verified_snapshot = _moved(of, engines, settle)
    if done.to is None:
        return replace(history, verified=verified_snapshot)
    log.warning("Branch verified repaired", table=found.table, why=done.why, verified_snapshot=verified_snapshot)
    with engines.keeping() as connection:
        events.record(connection, "table", found.table, "verified_repaired", f"verified {done.why}")
    return replace(history, verified=verified_snapshot)


def record_and_publish(result: Result, of: LakeTable, order: RunOrder, engines: Engines) -> Result:
    """Record the result, then move the branch. A proof without a branch is repaired later; the reverse would not be."""
    head = result.found.head
    moves = head is not None and result.verdict.publishes
    reason = proves_nothing(order, order.suites[result.table])
    if moves and reason:
        log.info("Branch verified not moved", table=result.table, verified_snapshot=result.verified, why=reason)
        result, moves = (
            replace(result, note="; ".join(filter(None, [f"verified did not move: {reason}", result.note]))),
            False,
        )
    if moves and head is not None:
        result = replace(result, verified=head.id)
    with engines.keeping() as connection:
        verifications.record(connection, result.row(), result.check_rows())
        waive.close_ended_waivers(connection, result.table, result.checks, whole=order.own_suite)
        if order.own_suite:
            incident.after_run(connection, result)
    if not moves or head is None:
        return result
    done, verified_snapshot = _moved(of, engines, _onward(head.id, order, result.table, engines), result.run)
    tag = {"audit_tag": done.tag.name} if done.tag else {}
    log.info("Branch verified moved", table=result.table, verified_snapshot=verified_snapshot, why=done.why, **tag)
    pointer.update_pointer(engines, order.suites[result.table], verified_snapshot)
    return replace(result, verified=verified_snapshot)


def _onward(checked: int, order: RunOrder, table: str, engines: Engines) -> Callable[[History], Move]:
    """Moves the branch to the checked snapshot, and creates the audit tag of the previous day where the branch was."""
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
    """Move the branch while this process holds the run. If others take the run over between this check and the commit,
    their move makes our commit fail (ADR 56); through Spark, they end our session and its statement.
    """

    def ours(now: History) -> Move:
        engines.prove()
        return decide(now)

    def others() -> list[Verification]:
        with engines.registry() as connection:
            return [proof for proof in verifications.proofs(connection, of.name) if proof["run"] != run]

    return of.move(lambda: engines.session, ours, others)


def waived_failures(checks: Sequence[Check]) -> str:
    """Failures that a waiver lets pass, as a sentence for the result; empty if there are none."""
    clauses = [
        f"{named(check.expectation, check.kwargs)} failed and does not hold: {check.excuse.text}"
        for check in checks
        if check.state in (State.FAIL, State.ERROR) and check.excuse is not None and check.own_effect is Effect.HOLD
    ]
    return "; ".join(clauses)


def publish_results(order: RunOrder, engines: Engines) -> None:
    """Append the recorded results to the results table of the lake. On failure the next run appends them."""
    try:
        engines.prove()
        with engines.registry() as connection:
            count = results_table.publish(connection, engines.lake)
        if count and order.keep is not None:
            results_table.remove_before(engines.lake, order.now - order.keep)
    except Exception as error:  # noqa: BLE001 - a copy for queries: the registry and the branch have the verdict
        text = sentence(f"{type(error).__name__}: {error}")
        log.warning("Results table not updated; the next run retries", table=results_table.TABLE, error=text)
