"""The task of a stream's Dag: runs the operation, and waits for approval if the operation needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import backfilling
from lakeward.airflow.asking import ApprovalTask, author, report_errors
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.operations.operation import Operation
    from lakeward.operations.request import Outcome, Request
    from lakeward.operations.runner import Runner

log = structlog.get_logger(__name__)


class Operate(ApprovalTask):
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
            return report_errors(lambda: report(self.stream, params.get("found")))
        if params["op"] == backfilling.OPERATION:
            return report_errors(lambda: backfill(self.stream, context, params))
        return report_errors(lambda: self.do_or_ask(context))

    def operation(self, context: Context) -> tuple[Runner, Operation[Any]]:
        """What the trigger form asks for."""
        runner = runner_of(self.stream, context)
        return runner, runner.of(request_of(self.stream, dict(context["params"])))

    def run_operation(self, runner: Runner, operation: Operation[Any]) -> Outcome:
        """Carry it out; whatever comes of it, how the stream is then stands at the end of the log."""
        try:
            return super().run_operation(runner, operation)
        finally:
            try:
                for line in block(self.stream):
                    log.info(line)
            except LakewardError as error:
                log.warning(f"How stream {self.stream} is cannot be told: {error.what}", why=error.why)


def request_of(stream: str, params: dict[str, Any]) -> Request:
    """What the trigger form asks for."""
    from lakeward.operations.request import Request, StreamOperation

    return Request(
        StreamOperation.of(params["op"]),
        stream,
        comment=str(params.get("comment") or ""),
        kill=bool(params.get("kill")),
        to=params.get("to") or None,
        duplicates=int(params.get("accept_duplicates") or 0),
        batch=params.get("batch"),
        generation=params.get("to_generation"),
    )


def runner_of(stream: str, context: Context) -> Runner:
    """Whoever triggered the run operates."""
    from lakeward.airflow.connections import runtime
    from lakeward.airflow.project import settings
    from lakeward.operations.runner import Runner
    from lakeward.supervision.reconcile import registry_of

    run, minutes = context["dag_run"], context["params"].get("timeout_min")
    addresses = runtime()
    return Runner(
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
        reporting.record(connection, told)
    if told.trouble:
        raise AirflowFailException(f"Stream {stream}: {told.lines[0]}")
    if told.verdict.state not in SETTLED:
        log.info(f"Stream {stream} is on its way: {told.verdict.why}")
