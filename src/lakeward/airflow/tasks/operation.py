"""The task of a stream's Dag: runs the operation, and waits for approval if the operation needs one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow.tasks import backfill
from lakeward.airflow.tasks.approval import ApprovalTask, author, report_errors
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.operations.operation import Operation
    from lakeward.operations.request import Outcome, Request
    from lakeward.operations.runner import Runner

log = structlog.get_logger(__name__)


class Operate(ApprovalTask):
    """Runs one operation on a stream, backfill and report included; see `ApprovalTask` for the approval."""

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(subject=f"Stream {stream}", **kwargs)
        self.stream = stream

    def execute(self, context: Context) -> None:
        """Run the operation, or wait for its approval.

        Raises:
            AirflowFailException: it did not succeed, or (report) the stream is in trouble: the run ends red.
        """
        params: dict[str, Any] = dict(context["params"])
        if params["op"] == "report":
            return report_errors(lambda: report(self.stream, params.get("found")))
        if params["op"] == backfill.OPERATION:
            return report_errors(lambda: run_backfill(self.stream, context, params))
        return report_errors(lambda: self.do_or_ask(context))

    def operation(self, context: Context) -> tuple[Runner, Operation[Any]]:
        """The operation that the trigger form requests."""
        runner = runner_of(self.stream, context)
        return runner, runner.of(request_of(self.stream, dict(context["params"])))

    def run_operation(self, runner: Runner, operation: Operation[Any]) -> Outcome:
        """Run the operation. The log ends with the stream's report, also after a failure."""
        try:
            return super().run_operation(runner, operation)
        finally:
            try:
                for line in block(self.stream):
                    log.info(line)
            except LakewardError as error:
                log.warning("stream state not known", stream=self.stream, error=error.what, why=error.why)


def request_of(stream: str, params: dict[str, Any]) -> Request:
    """The operation that the trigger form requests."""
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
    """The runner of an operation, on behalf of the user who triggered the run."""
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


def run_backfill(stream: str, context: Context, params: dict[str, Any]) -> None:
    """Run a backfill, in a process of its own."""
    from lakeward.airflow.connections import home, runtime
    from lakeward.platform.runtime import Project

    backfill.run(stream, params, runtime(), home(), Project.locate(), author(context))


def block(stream: str) -> tuple[str, ...]:
    """The lines of a stream's report, now, and its address on the page."""
    from lakeward.airflow.connections import runtime
    from lakeward.airflow.webserver.links import airflow_address
    from lakeward.supervision import page_links
    from lakeward.supervision import report as reporting
    from lakeward.supervision.reconcile import registry_of

    addresses = runtime()
    page = page_links.of(airflow_address(), "streams", stream)
    lines = reporting.of_stream(registry_of(addresses), addresses, stream).lines
    return (*lines, f"page         {page}") if page else lines


_PROBLEMS = re.compile(r"data lost\?\s+(?!NO\b)\S|at risk\s+YES|failure\s|supervised\s|no answer\s")
"""Lines of a report, after the first, that tell a problem; the others are facts."""


def is_problem(number: int, line: str) -> bool:
    """Whether a line of a report about trouble is logged as an error: the first one, and those that tell a problem."""
    return number == 0 or _PROBLEMS.match(line) is not None


def report(stream: str, trouble: str | None) -> None:
    """Log a stream's report and record it as sent.

    Raises:
        AirflowFailException: the stream is in trouble, or was when the report became due.
    """
    from lakeward.airflow.connections import runtime
    from lakeward.supervision import report as reporting
    from lakeward.supervision.decide.health import SETTLED
    from lakeward.supervision.reconcile import registry_of

    addresses = runtime()
    connect = registry_of(addresses)
    document = reporting.of_stream(connect, addresses, stream, trouble)
    for number, line in enumerate(document.lines):
        (log.error if document.trouble and is_problem(number, line) else log.info)(line)
    with connect() as connection:
        reporting.record(connection, document)
    if document.trouble:
        raise AirflowFailException(f"Stream {stream}: {document.lines[0]}")
    if document.verdict.state not in SETTLED:
        log.info("stream not settled yet", stream=stream, state=document.verdict.state.value, why=document.verdict.why)
