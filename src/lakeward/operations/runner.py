"""Carrying out operations: one at a time a stream, allowed, done, recorded."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import structlog

from lakeward.operations.context import Site
from lakeward.operations.import_checkpoint import Import
from lakeward.operations.lifecycle import Restart, Start, Stop
from lakeward.operations.operation import Act
from lakeward.operations.recover import Recover
from lakeward.operations.request import Operation, Outcome, Plan, Request
from lakeward.operations.reset import Reset
from lakeward.operations.rollback import Rollback
from lakeward.operations.skip_batch import SkipBatch
from lakeward.operations.upgrade import Upgrade
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, SpecError, TimedOut
from lakeward.registry import events, operations, streams
from lakeward.registry.operations import Ticket
from lakeward.supervision import abandoned_operations

log = structlog.get_logger(__name__)

ACTS: dict[Operation, type[Act[Any]]] = {
    act.operation: act for act in (Start, Stop, Restart, Upgrade, Rollback, Recover, Reset, SkipBatch, Import)
}


@dataclass(frozen=True)
class Operator(Site):
    """Carries out operations on streams."""

    def plan(self, request: Request) -> Plan:
        """What an operation would do; touches nothing.

        Raises:
            SpecError: there is no such stream, or what was asked for cannot be read.
            Refused: it cannot be done as things are.
        """
        plan: Plan = ACTS[request.operation](self, request).plan()
        return plan

    def asks(self, operation: Operation) -> bool:
        """Whether it waits for a person's approval."""
        return ACTS[operation].asks

    def dry_run(self, request: Request) -> Outcome:
        """The plan as an outcome."""
        plan = self.plan(replace(request, dry_run=True))
        return Outcome(request.operation.value, request.stream, "skipped", f"dry run: would {plan.text}", plan)

    def run(self, request: Request) -> Outcome:
        """Carry out one operation and, when asked, wait until it is done.

        Raises:
            SpecError: there is no such stream, or something needed was not said.
            Refused: it cannot be done now, or somebody else operates on the stream.
            TimedOut: it is still going on.
            LakewardError: it was tried and did not succeed.
        """
        act = ACTS[request.operation](self, request)
        act.row()
        ticket = self._begin(request)
        log.info(f"{self.author} asked to {request.operation} stream {request.stream}", comment=request.comment)
        try:
            plan = act.plan()
            permit(act, request, plan)
            detail = act.do(plan, Waiting(self, ticket))
        except LakewardError as error:
            result = "timed_out" if isinstance(error, TimedOut) else "refused" if _refused(error) else "failed"
            self._end(ticket, result, f"{error.what}: {error.why}")
            raise
        except KeyboardInterrupt:
            self._end(ticket, "failed", "interrupted; what it had asked for goes on")
            raise
        self._end(ticket, "done", detail)
        log.info(f"Stream {request.stream}: {detail}", operation=request.operation.value, result="done")
        return Outcome(request.operation.value, request.stream, "done", detail, plan)

    def _begin(self, request: Request) -> Ticket:
        with self.connect() as connection:
            ticket = operations.begin(
                connection,
                request.stream,
                request.operation.value,
                author=self.author,
                holder=self.holder,
                token=secrets.token_hex(16),
                comment=request.comment,
                approved_by=None if request.approval is None else request.approval.by,
                **asked_with(request),
            )
            abandoned_operations.resume(connection, ticket.abandoned)
            events.record(
                connection,
                "stream",
                request.stream,
                request.operation.value,
                f"{self.author} asked to {request.operation.value}",
                comment=request.comment,
            )
        return ticket

    def _end(self, ticket: Ticket, result: str, detail: str) -> None:
        with suppress(DependencyDown), self.connect() as connection:  # else it counts as abandoned, which is true
            operations.end(connection, ticket, result, detail)
            row = streams.find(connection, ticket.stream)
            if row is not None and result != "done":
                events.record(connection, "stream", ticket.stream, "operation", f"{result}: {detail}")


def permit(act: Act[Any], request: Request, plan: Plan) -> None:
    """Whether an operation that needs a person's yes has it, for just this plan.

    Raises:
        SpecError: there is no comment.
        Refused: there is no approval, or it is for something else.
    """
    if not act.asks:
        return
    name = f"{request.operation} of stream {request.stream}"
    if not request.comment.strip():
        raise SpecError(
            f"The {name} needs a comment", why="whoever reads it later must know why", next="say it with --comment TEXT"
        )
    if request.approval is None:
        raise Refused(
            f"The {name} needs a person's approval: approval missing",
            why=f"it would {plan.text}",
            next="answer the question at a terminal, or in a script: --yes --comment TEXT",
        )
    if request.approval.key != plan.key:
        raise Refused(
            f"The {name} is not what {request.approval.by} approved",
            why=f"things have moved; now it would {plan.text}",
            next=f"lakeward streams {request.operation} {request.stream} --dry-run   shows it anew",
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


def _refused(error: LakewardError) -> bool:
    return isinstance(error, Refused | SpecError)
