"""Approval task: shows the plan of an operation, and waits until a person approves exactly that plan."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow.common import failure
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.operations.operation import Operation
    from lakeward.operations.request import Outcome, Plan
    from lakeward.operations.runner import Runner

log = structlog.get_logger(__name__)

ANSWER_WITHIN = timedelta(minutes=30)
WORK_WITHIN = timedelta(minutes=40)
_PLAN = "plan"


class ApprovalTask(ApprovalOperator):
    """Runs one operation. An operation that needs an approval waits for it, without a worker and the triggerer, until a
    person approves exactly its plan (Required Actions) or the time limit is reached.

    Approval and work are one task, so that runs without an approval have no extra cost.
    """

    template_fields = ()

    def __init__(self, *, subject: str, **kwargs: Any) -> None:
        super().__init__(subject=subject, response_timeout=ANSWER_WITHIN, **kwargs)
        self.execution_timeout = WORK_WITHIN  # of the work; as an argument above it would limit the answer

    @abstractmethod
    def operation(self, context: Context) -> tuple[Runner, Operation[Any]]:
        """The operation of the run's trigger form."""

    def run_operation(self, runner: Runner, operation: Operation[Any]) -> Outcome:
        """Run the approved operation, and log its result."""
        outcome = runner.run(operation)
        log.info("operation finished", operation=operation.title, detail=outcome.detail)
        return outcome

    def do_or_ask(self, context: Context) -> None:
        """Run the operation, or show its plan and ask first. The operation of a killed run needs no new approval."""
        runner, operation = self.operation(context)
        if context["params"].get("dry_run"):
            outcome = runner.dry_run(operation)
            for line in outcome.lines:
                log.info(line)
            log.info("dry run finished", operation=operation.title, detail=outcome.detail)
            return
        if not operation.needs_approval or runner.interrupted(operation) is not None:
            self.run_operation(runner, operation)
            return
        from lakeward.operations.runner import check_comment

        check_comment(operation)  # before a person is asked
        plan = runner.plan(operation)
        if plan.nothing:
            log.info("nothing to do", why=plan.nothing)
            return
        log.info("operation waits for approval", operation=operation.title)
        self.ask(context, f"Approve the {operation.title}?", plan, operation.request.comment)

    def approved(self, context: Context, who: str, key: str) -> None:
        """Run the approved operation, if its plan still has this key."""
        from lakeward.operations.request import Approval

        runner, operation = self.operation(context)
        self.run_operation(runner, operation.answered("", Approval(who, key)))

    def ask(self, context: Context, question: str, plan: Plan, comment: str) -> None:
        """Show a plan and wait for the answer; the task continues in `execute_complete`."""
        for line in plan.lines:
            log.info(line)
        log.info("operation planned", would=plan.text)
        self.subject = question
        listed = "\n".join(f"* {plain(line)}" for line in plan.lines)
        self.body = f"It would {plain(plan.text)}.\n\n{listed}\n\n**Why:** {plain(comment)}"
        context["ti"].xcom_push(key=_PLAN, value=plan.key)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Handle the answer."""
        if "error" in event:
            why = f"no answer within {ANSWER_WITHIN.total_seconds() / 60:.0f} min; nothing was changed"
            raise AirflowFailException(f"The operation was not approved: {why}")
        answer = super().execute_complete(context, event)
        who = str((answer.get("responded_by_user") or {}).get("name") or "An unnamed user")
        if answer["chosen_options"] != [self.APPROVE]:
            raise AirflowFailException(f"{who} rejected the operation; nothing was changed")
        key = str(context["ti"].xcom_pull(task_ids=self.task_id, key=_PLAN))
        return report_errors(lambda: self.approved(context, who, key))


def author(context: Context) -> str:
    """The user who triggered the run."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "Airflow")


def report_errors(work: Callable[[], Any]) -> None:
    """Do the work; a foreseen error is one record of the log and a red run, without a stack trace."""
    try:
        work()
    except LakewardError as error:
        raise failure(error) from None


def plain(text: str) -> str:
    """Escape Markdown: records and comments are user data."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()<>#+!|~" else sign for sign in text)
