"""Runner of operations: comment, lock, plan, approval, draining of writers, apply, record, restart.

The order is the same for every operation:

1. check that the comment is given and that the stream or the table exists;
2. take `Operation.lock`; finish what an earlier run left half done;
3. make the plan; check that the approval is for exactly this plan;
4. lease the tables, open resources, do what is possible beside the running streams (`prepare`);
5. lock the streams, then drain them; make the plan again and check the approval again;
6. apply, and start the drained streams again, also after a failure.

A killed process leaves tickets that are not renewed. The next operation or reconcile pass closes them and starts the
streams that they had stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import structlog

from lakeward.operations.context import Context
from lakeward.operations.import_checkpoint import Import
from lakeward.operations.lifecycle import Restart, Start, Stop
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.operation_lock import operation_lock, rebuild_lock, result_of
from lakeward.operations.recover import Recover
from lakeward.operations.request import Outcome, Plan, Request
from lakeward.operations.reset import Reset
from lakeward.operations.rollback import Rollback
from lakeward.operations.skip_batch import SkipBatch
from lakeward.operations.stream import set_desired
from lakeward.operations.upgrade import Upgrade
from lakeward.platform.boundary import worded
from lakeward.platform.errors import DependencyDown, Refused, SpecError
from lakeward.platform.text import word
from lakeward.registry import maintenance, streams
from lakeward.tables.guard.actor import hold_lease
from lakeward.tables.maintain import take_over
from lakeward.telemetry import failpoints

log = structlog.get_logger(__name__)

ON_STREAMS: dict[str, type[Operation[Any]]] = {
    operation.name: operation
    for operation in (Start, Stop, Restart, Upgrade, Rollback, Recover, Reset, SkipBatch, Import)
}
"""Name -> class of the operations that a request alone describes."""


@dataclass(frozen=True)
class Runner(Context):
    """Runs operations."""

    def of(self, requested: Request | Operation[Any]) -> Operation[Any]:
        """The operation that a request describes."""
        return requested if isinstance(requested, Operation) else ON_STREAMS[requested.operation](self, requested)

    def plan(self, requested: Request | Operation[Any]) -> Plan:
        """What an operation would do; changes nothing.

        Raises:
            SpecError: the stream or table does not exist, or the request is not valid.
            Refused: the operation is not possible in the current state.
        """
        operation = self.of(requested)
        plan: Plan = self.interrupted(operation) or _worded(operation, operation.plan)
        return plan

    def interrupted(self, operation: Operation[Any]) -> Any:
        """The plan of an earlier run that was killed, which is finished without another approval; None without one."""
        return _worded(operation, operation.interrupted_plan)

    def dry_run(self, requested: Request | Operation[Any]) -> Outcome:
        """The plan as an outcome."""
        operation = self.of(requested)
        operation.request = replace(operation.request, dry_run=True)
        plan = self.plan(operation)
        return replace(
            operation.done(f"dry run: {plan.nothing or f'would {plan.text}'}", plan.data, plan.lines), result="skipped"
        )  # fmt: skip

    def run(self, requested: Request | Operation[Any]) -> Outcome:
        """Carry out one operation and, if requested, wait until it is done.

        Raises:
            SpecError: the stream or table does not exist, or a required argument is missing.
            Refused: it is not possible now, exactly this plan was not approved, or another operation runs.
            TimedOut: it still runs.
            LakewardError: it failed.
        """
        operation = self.of(requested)
        if operation.needs_comment:
            check_comment(operation)
        _worded(operation, operation.exists)
        held, ended = HeldLocks(), OutcomeHolder()
        with ExitStack() as stack:
            self._lock(operation, held, ended, stack)
            log.info("operation begun", operation=operation.name, subject=operation.subject, author=self.author,
                     comment=operation.request.comment)  # fmt: skip
            interrupted = self.interrupted(operation)
            outcome = (
                None if interrupted is None else self._carry_out(operation, interrupted, held, ended, finishing=True)
            )
            if interrupted is None or outcome is None or not operation.completes(interrupted):
                outcome = self._planned(operation, held, ended)
        log.info("operation ended", operation=outcome.operation, subject=outcome.subject, result=outcome.result,
                 detail=outcome.detail)  # fmt: skip
        return outcome

    def _planned(self, operation: Operation[Any], held: HeldLocks, ended: OutcomeHolder) -> Outcome:
        """Make the plan, and carry it out if it is the approved one."""
        plan: Plan = _worded(operation, operation.plan)
        if plan.nothing:
            return operation.unchanged(plan.nothing, plan.data)
        check_approval(operation, plan)
        return self._carry_out(operation, plan, held, ended)

    def _lock(self, operation: Operation[Any], held: HeldLocks, ended: OutcomeHolder, stack: ExitStack) -> None:
        """Take the lock that is held from before the plan on."""
        if operation.lock is Lock.STREAM:
            self._hold(operation, operation.subject, held, ended, stack)
        elif operation.lock is Lock.REBUILD:
            stack.enter_context(rebuild_lock(self, operation.subject))
        elif operation.lock is Lock.TABLE:
            self._lease(operation.subject, held, stack)
            take_over(self.connect, self.runtime, operation.subject)

    def _hold(
        self, operation: Operation[Any], stream: str, held: HeldLocks, ended: OutcomeHolder, stack: ExitStack
    ) -> None:  # fmt: skip
        arguments = request_arguments(operation.request)
        ticket = operation_lock(self, operation, stream, arguments, lambda: ended.detail)
        held.streams[stream] = stack.enter_context(ticket)

    def _lease(self, table: str, held: HeldLocks, stack: ExitStack) -> None:
        held.tables.append(stack.enter_context(hold_lease(self.connect, table, self.holder)))

    def _carry_out(
        self, operation: Operation[Any], plan: Plan, held: HeldLocks, ended: OutcomeHolder, *, finishing: bool = False
    ) -> Outcome:  # fmt: skip
        """Apply an approved plan. Further locks and leases are released at the end.

        Args:
            finishing: the plan is that of an earlier run, which had the approval.
        """
        own = HeldLocks(list(held.tables), dict(held.streams))
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
                detail = outcome.detail + self._restart_drained(operation, plan, own)
                outcome = replace(outcome, detail=detail, data={**plan.data, **outcome.data})
            ended.outcome = outcome
        return outcome

    def _drain(self, operation: Operation[Any], plan: Plan, held: HeldLocks, *, finishing: bool) -> Plan:
        """Stop the streams at a batch boundary and make the plan again; it must still be the approved one."""
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
                f"Cannot run the {operation.title}: {', '.join(new)} also writes the table now",
                why="the stream was deployed since the plan was made; nothing was changed",
                next="repeat the command",
                code="LW-2071",
            )
        held.check()
        return now

    @contextmanager
    def _drained(self, operation: Operation[Any], held: HeldLocks) -> Iterator[None]:
        """After a failure, start the drained streams again; a block that they had stays."""
        try:
            yield
        except (Exception, KeyboardInterrupt):
            for stream in held.drained:
                with suppress(
                    DependencyDown
                ):  # else the ticket counts as abandoned and the next reconcile pass starts the stream
                    held.streams[stream].resume()
            raise

    def _restart_drained(self, operation: Operation[Any], plan: Plan, held: HeldLocks) -> str:
        """Start the drained streams; returns the clause that follows the outcome's sentence."""
        single = operation.kind == "stream"
        if not held.drained:
            return "; the stream stays stopped" if single and plan.drains else ""
        with self.connect() as connection:
            for stream in held.drained:
                if operation.lock is Lock.STREAM:
                    set_desired(connection, streams.get(connection, stream), "running")
                else:
                    streams.set_desired(connection, [stream], "running", keep_block=not operation.clears_block)
        drained, held.drained = held.drained, []
        if operation.lock is Lock.STREAM and operation.request.wait:
            return f"; {held.streams[operation.subject].started('started again')}"
        self.reconcile()
        return "; asked to run again" if single else f"; asked to run again: {', '.join(drained)}"

    @contextmanager
    def _ledger(self, operation: Operation[Any], plan: Plan) -> Iterator[OutcomeHolder]:
        """Keep a row of the table's ledger, from before the streams are drained until the end."""
        before, ended = operation.ledger(plan), OutcomeHolder()
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
        result = "done" if ended.outcome is None else ended.outcome.result
        end(result=result, verified=True, why=operation.request.comment, after=after)


@dataclass
class OutcomeHolder:
    """Holder of the outcome, set at the end."""

    outcome: Outcome | None = None

    @property
    def detail(self) -> str:
        """The text for the record of the operation."""
        return "" if self.outcome is None else self.outcome.detail


def check_comment(operation: Operation[Any]) -> None:
    """Raises:
    SpecError: the comment is missing.
    """
    if not operation.request.comment.strip():
        raise SpecError(
            f"The {operation.title} needs a comment",
            why="the change is recorded with the reason for it",
            next='repeat it with the reason in a sentence, e.g. --comment "the producer sent them twice"',
            code="LW-2068",
        )


def check_approval(operation: Operation[Any], plan: Plan) -> None:
    """Check that an operation that needs approval has it for exactly this plan.

    Raises:
        Refused: the approval is missing, or is for another plan.
    """
    if not operation.needs_approval:
        return
    approval = operation.request.approval
    if approval is None:
        raise Refused(
            f"The {operation.title} needs a person's approval",
            why=f"no approval was given; the operation would {plan.text}",
            next="answer the question at a terminal, or in a script: --yes --comment TEXT",
            code="LW-2069",
        )
    if approval.key != plan.key:
        raise Refused(
            f"The {operation.title} is not the plan that {approval.by} approved",
            why=f"the state has changed since; now the operation would {plan.text}",
            next="the same command with --dry-run   shows the new plan",
            code="LW-2070",
        )


def request_arguments(request: Request) -> dict[str, object]:
    """Arguments of the request, for the record of the operation."""
    arguments = {
        "to": request.to,
        "batch": request.batch,
        "generation": request.generation,
        "duplicates": request.duplicates or None,
        "kill": request.kill or None,
        "checkpoint": request.folder,
        "undo": request.undo or None,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _worded(operation: Operation[Any], look: Callable[[], Any]) -> Any:
    """What an operation finds before it changes anything.

    What it reads may be missing or damaged: a file of a table, its metadata, a property.
    """
    subject = operation.subject
    table = f"lakeward tables health {word(subject)}"
    show = f"lakeward streams status {subject}" if operation.kind == "stream" else table
    next_ = f"bring back what is named; nothing was changed: {show}"
    return worded(f"what the {operation.title} needs", look, next=next_)
