"""The one task of a stream's Dag: carries out the run's operation, and waits for a person where one must say yes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import backfilling
from lakeward.airflow.asking import Asking, author, told
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.operations.request import Request
    from lakeward.operations.runner import Operator

log = structlog.get_logger(__name__)


class Operate(Asking):
    """Carries out one operation.

    Most are done at once. One that needs a yes (`reset`, `skip_batch`) first shows exactly what it would do and then
    waits, without a worker and without the triggerer, until somebody approves just that (Required Actions) or its
    time is over. It is one task, so that the others pay nothing for it.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(subject=f"Stream {stream}", **kwargs)
        self.stream = stream

    def execute(self, context: Context) -> None:
        """Do it, or ask first.

        Raises:
            AirflowFailException: it did not succeed, or (report) the stream is in trouble: the run ends red.
        """
        params: dict[str, Any] = dict(context["params"])
        if params["op"] == "report":
            return told(lambda: report(self.stream, params.get("found")))
        if params["op"] == backfilling.OPERATION:
            return told(lambda: backfill(self.stream, context, params))
        return told(lambda: self._do_or_ask(context, params))

    def _do_or_ask(self, context: Context, params: dict[str, Any]) -> None:
        operator, request = operator_of(self.stream, context), request_of(self.stream, params)
        if params.get("dry_run"):
            outcome = operator.dry_run(request)
            for line in outcome.plan.lines if outcome.plan is not None else ():
                log.info(line)
            log.info(f"Stream {self.stream}: {outcome.detail}")
            return
        if not operator.asks(request.operation):
            run(operator, request)
            return
        if not request.comment.strip():
            operator.run(request)  # refused: a comment is missing; better said before anybody is asked
        plan = operator.plan(request)
        log.info(f"Stream {self.stream}: waiting for approval")
        self.ask(context, f"{request.operation} stream {self.stream}?", plan, request.comment)

    def approved(self, context: Context, who: str, key: str) -> None:
        """Do just what was approved."""
        from dataclasses import replace

        from lakeward.operations.request import Approval

        request = request_of(self.stream, dict(context["params"]))
        run(operator_of(self.stream, context), replace(request, approval=Approval(who, key)))


def request_of(stream: str, params: dict[str, Any]) -> Request:
    """What the trigger form asks for."""
    from lakeward.operations.request import Operation, Request

    return Request(
        Operation.of(params["op"]),
        stream,
        comment=str(params.get("comment") or ""),
        kill=bool(params.get("kill")),
        to=params.get("to") or None,
        duplicates=int(params.get("accept_duplicates") or 0),
        batch=params.get("batch"),
        generation=params.get("to_generation"),
    )


def operator_of(stream: str, context: Context) -> Operator:
    """Whoever triggered the run operates."""
    from lakeward.airflow.connections import runtime
    from lakeward.airflow.project import settings
    from lakeward.operations.runner import Operator
    from lakeward.supervision.reconcile import registry_of

    run, minutes = context["dag_run"], context["params"].get("timeout_min")
    addresses = runtime()
    return Operator(
        registry_of(addresses),
        addresses,
        author=author(context),
        holder=f"run {run.run_id} of stream__{stream}",
        settings=settings,
        timeout_s=None if minutes is None else float(minutes) * 60,
    )


def backfill(stream: str, context: Context, params: dict[str, Any]) -> None:
    """Land a range again, in a process of its own."""
    from lakeward.airflow.connections import home, runtime
    from lakeward.platform.runtime import Project

    backfilling.run(stream, params, runtime(), home(), Project.locate(), author(context))


def run(operator: Operator, request: Request) -> None:
    """Carry it out; whatever comes of it, how the stream is then stands at the end of the log."""
    try:
        operator.run(request)
    finally:
        try:
            for line in block(request.stream):
                log.info(line)
        except LakewardError as error:
            log.warning(f"How stream {request.stream} is cannot be told: {error.what}", why=error.why)


def block(stream: str) -> tuple[str, ...]:
    """The lines about a stream as it is now."""
    from lakeward.airflow.connections import runtime
    from lakeward.supervision import report as reporting
    from lakeward.supervision.reconcile import registry_of

    addresses = runtime()
    return reporting.of_stream(registry_of(addresses), addresses, stream).lines


def report(stream: str, found: str | None) -> None:
    """Print the block about a stream.

    Raises:
        AirflowFailException: it is in trouble, or was when the report was due.
    """
    from lakeward.airflow.connections import runtime
    from lakeward.supervision import report as reporting
    from lakeward.supervision.decide.health import SETTLED
    from lakeward.supervision.reconcile import registry_of

    addresses = runtime()
    connect = registry_of(addresses)
    told = reporting.of_stream(connect, addresses, stream, found)
    for line in told.lines:
        (log.error if told.trouble else log.info)(line)
    with connect() as connection:
        reporting.told(connection, told)
    if told.trouble:
        raise AirflowFailException(f"Stream {stream}: {told.lines[0]}")
    if told.verdict.state not in SETTLED:
        log.info(f"Stream {stream} is on its way: {told.verdict.why}")
