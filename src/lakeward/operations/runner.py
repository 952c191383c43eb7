"""Runs operations: asked for with a reason, approved, alone, with the writers drained, recorded, started again.

The order is the same for all of them:

1. the comment is there, and so is the stream or the table;
2. `Operation.lock` is taken; what an earlier run left half done is finished;
3. the plan is made, and the approval is for just this plan;
4. tables are leased, resources opened, what can be done beside the running streams is done;
5. the streams are held, then drained; plan and approval are looked at once more;
6. it is applied, and what was drained runs again, however it ended.

A kill leaves tickets that nobody renews. Whoever comes next ends them and starts again what they had stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import structlog

from lakeward.operations.context import Context
from lakeward.operations.import_checkpoint import Import
from lakeward.operations.lifecycle import Restart, Start, Stop
from lakeward.operations.operation import Held, Lock, Operation
from lakeward.operations.operation_lock import operation_lock, rebuild_lock, result_of
from lakeward.operations.recover import Recover
from lakeward.operations.request import Outcome, Plan, Request
from lakeward.operations.reset import Reset
from lakeward.operations.rollback import Rollback
from lakeward.operations.skip_batch import SkipBatch
from lakeward.operations.stream import want
from lakeward.operations.upgrade import Upgrade
from lakeward.platform.errors import DependencyDown, Refused, SpecError
from lakeward.registry import maintenance, streams
from lakeward.tables.guard.actor import actor
from lakeward.tables.maintain import take_over
from lakeward.telemetry import failpoints

log = structlog.get_logger(__name__)

ON_STREAMS: dict[str, type[Operation[Any]]] = {
    each.name: each for each in (Start, Stop, Restart, Upgrade, Rollback, Recover, Reset, SkipBatch, Import)
}
"""The operations that a request alone describes."""


@dataclass(frozen=True)
class Runner(Context):
    """Runs operations."""

    def of(self, asked: Request | Operation[Any]) -> Operation[Any]:
        """The operation that a request describes."""
        return asked if isinstance(asked, Operation) else ON_STREAMS[asked.operation](self, asked)

    def plan(self, asked: Request | Operation[Any]) -> Plan:
        """What an operation would do; touches nothing.

        Raises:
            SpecError: there is no such stream or table, or what was asked for cannot be read.
            Refused: it cannot be done as things are.
        """
        operation = self.of(asked)
        plan: Plan = operation.unfinished() or operation.plan()
        return plan

    def dry_run(self, asked: Request | Operation[Any]) -> Outcome:
        """The plan as an outcome."""
        operation = self.of(asked)
        operation.request = replace(operation.request, dry_run=True)
        plan = self.plan(operation)
        return replace(
            operation.done(f"dry run: would {plan.text}", plan.data, plan.lines), result="skipped"
        )  # fmt: skip

    def run(self, asked: Request | Operation[Any]) -> Outcome:
        """Carry out one operation and, when asked, wait until it is done.

        Raises:
            SpecError: there is no such stream or table, or something needed was not said.
            Refused: it cannot be done now, nobody approved exactly this, or somebody else is at it.
            TimedOut: it is still going on.
            LakewardError: it was tried and did not succeed.
        """
        operation = self.of(asked)
        if operation.needs_comment:
            check_comment(operation)
        operation.exists()
        held, ended = Held(), Ended()
        with ExitStack() as stack:
            self._lock(operation, held, ended, stack)
            log.info("operation begun", operation=operation.name, subject=operation.subject, author=self.author,
                     comment=operation.request.comment)  # fmt: skip
            left = operation.unfinished()
            outcome = None if left is None else self._carry_out(operation, left, held, ended, finishing=True)
            if left is None or outcome is None or not operation.completes(left):
                outcome = self._planned(operation, held, ended)
        log.info("operation ended", operation=outcome.operation, subject=outcome.subject, result=outcome.result,
                 detail=outcome.detail)  # fmt: skip
        return outcome

    def _planned(self, operation: Operation[Any], held: Held, ended: Ended) -> Outcome:
        """Make the plan, and carry it out if it is what was approved."""
        plan = operation.plan()
        if plan.nothing:
            return operation.done(plan.nothing, plan.data)
        check_approval(operation, plan)
        return self._carry_out(operation, plan, held, ended)

    def _lock(self, operation: Operation[Any], held: Held, ended: Ended, stack: ExitStack) -> None:
        """Take what is held from before the plan on."""
        if operation.lock is Lock.STREAM:
            self._hold(operation, operation.subject, held, ended, stack)
        elif operation.lock is Lock.REBUILD:
            stack.enter_context(rebuild_lock(self, operation.subject))
        elif operation.lock is Lock.TABLE:
            self._lease(operation.subject, held, stack)
            take_over(self.connect, self.runtime, operation.subject)

    def _hold(
        self, operation: Operation[Any], stream: str, held: Held, ended: Ended, stack: ExitStack
    ) -> None:  # fmt: skip
        asked = asked_with(operation.request)
        ticket = operation_lock(self, operation, stream, asked, lambda: ended.detail)
        held.streams[stream] = stack.enter_context(ticket)

    def _lease(self, table: str, held: Held, stack: ExitStack) -> None:
        held.tables.append(stack.enter_context(actor(self.connect, table, self.holder)))

    def _carry_out(
        self, operation: Operation[Any], plan: Plan, held: Held, ended: Ended, *, finishing: bool = False
    ) -> Outcome:  # fmt: skip
        """Apply a plan that may be applied. What it takes beyond the first lock is given back at the end.

        Args:
            finishing: an earlier run, which had the approval.
        """
        own = Held(list(held.tables), dict(held.streams))
        with ExitStack() as stack:
            for table in plan.leases:
                if table != operation.subject:
                    self._lease(table, own, stack)
            stack.enter_context(operation.resources(plan))
            operation.prepare(plan)
            for stream in plan.holds:
                self._hold(operation, stream, own, ended, stack)
            with self._ledger(operation, plan) as ledger, self._drained(operation, own):
                if plan.drains is not None:
                    plan = self._drain(operation, plan, own, finishing=finishing)
                outcome = operation.apply(plan, own)
                ledger.outcome = outcome
                detail = outcome.detail + self._start_again(operation, plan, own)
                outcome = replace(outcome, detail=detail, data={**plan.data, **outcome.data})
            ended.outcome = outcome
        return outcome

    def _drain(self, operation: Operation[Any], plan: Plan, held: Held, *, finishing: bool) -> Plan:
        """Stop the streams at a batch boundary; the plan as it is then, if it is still what was approved."""
        for stream in plan.drains or ():
            if held.streams[stream].drain(kill=operation.request.kill):
                held.drained.append(stream)
        failpoints.hit(f"{operation.name}-stopped")
        now: Plan = operation.drained_plan(plan)
        if not finishing:
            check_approval(operation, now)
        new = sorted(set(now.drains or ()) - set(held.streams))
        if new:
            raise Refused(
                f"The {operation.title} was not done: {', '.join(new)} writes it too now",
                why="it was deployed meanwhile; nothing was changed",
                next="the same command again",
                code="LW-2071",
            )
        held.check()
        return now

    @contextmanager
    def _drained(self, operation: Operation[Any], held: Held) -> Iterator[None]:
        """If it fails, what was drained runs again, blocked by whatever blocked it."""
        try:
            yield
        except (Exception, KeyboardInterrupt):
            for stream in held.drained:
                with suppress(DependencyDown):  # else it counts as abandoned, and is started by the next to come
                    held.streams[stream].resume()
            raise

    def _start_again(self, operation: Operation[Any], plan: Plan, held: Held) -> str:
        """Start what was drained; how that is told, after the outcome's sentence."""
        single = operation.kind == "stream"
        if not held.drained:
            return "; the stream stays stopped" if single and plan.drains else ""
        with self.connect() as connection:
            for stream in held.drained:
                if operation.lock is Lock.STREAM:
                    want(connection, streams.get(connection, stream), "running")
                else:
                    streams.set_desired(connection, [stream], "running", keep_block=not operation.clears_block)
        drained, held.drained = held.drained, []
        if operation.lock is Lock.STREAM and operation.request.wait:
            return f"; {held.streams[operation.subject].started('started again')}"
        self.reconcile()
        return "; asked to run again" if single else f"; asked to run again: {', '.join(drained)}"

    @contextmanager
    def _ledger(self, operation: Operation[Any], plan: Plan) -> Iterator[Ended]:
        """A row of the table's ledger, from before the streams are drained until it ended."""
        before, ended = operation.ledger(plan), Ended()
        if before is None:
            yield ended
            return
        begun = time.monotonic()
        with self.connect() as connection:
            action = maintenance.begin_action(
                connection, plan=uuid4().hex, table=operation.subject, action=operation.name, session_id=None,
                before=dict(before),
            )  # fmt: skip

        def end(**values: Any) -> None:
            with suppress(DependencyDown), self.connect() as connection:
                maintenance.finish_action(connection, action, duration_s=round(time.monotonic() - begun, 3), **values)

        try:
            yield ended
        except (Exception, KeyboardInterrupt) as error:
            result = result_of(error) if isinstance(error, Exception) else "failed"
            end(result=result, verified=False, why=operation.failure(error))
            raise
        after = {} if ended.outcome is None else dict(operation.ledger_after(ended.outcome))
        end(result="done", verified=True, why=operation.request.comment, after=after)


@dataclass
class Ended:
    """The outcome, when there is one."""

    outcome: Outcome | None = None

    @property
    def detail(self) -> str:
        """For the record of a stream's operation."""
        return "" if self.outcome is None else self.outcome.detail


def check_comment(operation: Operation[Any]) -> None:
    """Raises:
    SpecError: there is no comment.
    """
    if not operation.request.comment.strip():
        raise SpecError(
            f"The {operation.title} needs a comment",
            why="it is kept with the change: whoever reads it later must know why",
            next="say why, in a sentence: --comment TEXT",
            code="LW-2068",
        )


def check_approval(operation: Operation[Any], plan: Plan) -> None:
    """Whether an operation that needs a person's approval has it, for just this plan.

    Raises:
        Refused: there is no approval, or it is for something else.
    """
    if not operation.needs_approval:
        return
    approval = operation.request.approval
    if approval is None:
        raise Refused(
            f"The {operation.title} needs a person's approval: approval missing",
            why=f"it would {plan.text}",
            next="answer the question at a terminal, or in a script: --yes --comment TEXT",
            code="LW-2069",
        )
    if approval.key != plan.key:
        raise Refused(
            f"The {operation.title} is not what {approval.by} approved",
            why=f"things have moved; now it would {plan.text}",
            next="the same command with --dry-run   shows it anew",
            code="LW-2070",
        )


def asked_with(request: Request) -> dict[str, Any]:
    """What the operation was asked with, for its record."""
    asked = {
        "to": request.to,
        "batch": request.batch,
        "generation": request.generation,
        "duplicates": request.duplicates or None,
        "kill": request.kill or None,
        "checkpoint": request.folder,
        "undo": request.undo or None,
    }
    return {name: value for name, value in asked.items() if value is not None}
