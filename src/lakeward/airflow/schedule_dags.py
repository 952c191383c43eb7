"""`schedule__<id>`: starts a stream by its schedule, and waits until it has landed all that was available."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakeward.airflow.common import access, options
from lakeward.airflow.completion import CompletionTrigger
from lakeward.airflow.dag_summary import Declared
from lakeward.airflow.names import schedule_dag_id, stream_dag_id
from lakeward.airflow.tasks.approval import report_errors
from lakeward.airflow.tasks.operation import block

if TYPE_CHECKING:
    from airflow.sdk import Context

log = structlog.get_logger(__name__)

LONGEST = timedelta(hours=24)
"""A run that takes longer ends red; the stream itself continues."""


class RunToEnd(BaseOperator):
    """Starts a stream and waits, without a worker, until it is completed."""

    template_fields = ()

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> None:
        """Start the stream.

        Raises:
            AirflowSkipException: the stream may not be started now.
            AirflowFailException: the stream is blocked, or another operation has its lock.
        """
        report_errors(lambda: self._begin(context))

    def completed(self, context: Context, event: dict[str, Any]) -> None:
        """End the run with the result of the stream.

        Raises:
            AirflowFailException: not all available records have landed.
        """
        report_errors(lambda: [log.info(line) for line in block(self.stream)])
        if not event["well"]:
            raise AirflowFailException(f"Stream {self.stream}: {event['text']}")
        log.info("scheduled run completed", stream=self.stream, result=event["text"])

    def _begin(self, context: Context) -> None:
        from lakeward.airflow.connections import runtime
        from lakeward.airflow.project import settings
        from lakeward.operations import scheduled
        from lakeward.operations.runner import Runner
        from lakeward.supervision.reconcile import registry_of

        addresses = runtime()
        run = context["dag_run"].run_id
        operator = Runner(
            registry_of(addresses), addresses, author="schedule",
            holder=f"run {run} of {schedule_dag_id(self.stream)}", settings=settings,
        )  # fmt: skip
        begun = scheduled.begin(operator, self.stream)
        if begun.why_not is not None:
            raise AirflowSkipException(f"Nothing was started: {begun.why_not}")
        self.defer(trigger=CompletionTrigger(self.stream, begun.since.isoformat()), method_name="completed")


def build(stream: Declared) -> DAG:
    """The Dag of one stream's schedule; it has no schedule if a task builds it by its name alone.

    A spec that Airflow refuses must not remove the other Dags of the file.
    """
    try:
        return _build(stream)
    except Exception as error:  # noqa: BLE001  # the boundary between a stream's values and the Dags of all the others
        text = f"{stream.file}: Airflow refuses this stream's values: {error}"
        return _build(replace(stream, spec=None, problems=(*stream.problems, text)))


def _build(stream: Declared) -> DAG:
    spec = stream.spec
    problems = "".join(f"* `{text}`\n" for text in stream.problems[:20])
    doc = (f"### The file of this stream has problems\n{problems}\n" if problems else "") + _DOC
    for name, value in (
        ("STREAM", stream.id),
        ("OPERATIONS", stream_dag_id(stream.id)),
        ("SCHEDULE", (spec.schedule if spec is not None else None) or "that of its file"),
    ):
        doc = doc.replace(name, value)
    with DAG(
        schedule_dag_id(stream.id),
        dag_display_name=f"schedule: {stream.id}",
        description=f"Lands all available records, at {spec.schedule}." if spec is not None else "See the Dag's docs.",
        schedule=None if spec is None else spec.schedule,
        dagrun_timeout=LONGEST,
        **options(
            owner=spec.owner if spec is not None else "lakeward",
            tags=["schedule", *(spec.tags if spec is not None else ()), *(["file has problems"] if problems else [])],
            doc=doc,
            **access(None if spec is None else spec.team),
        ),
    ) as dag:
        RunToEnd(
            task_id="run",
            stream=stream.id,
            doc_md="Starts the stream and waits until it has landed all available records.",
        )
    return dag


_DOC = """
### What a run is
At `SCHEDULE` (cron, UTC) it starts the stream `STREAM`, which lands the records that are available **now**, batch by
batch within its limits, and then is `completed`. The run waits for that without a worker. One run is active at a time,
and there is no catch-up: the next run lands the records of a missed one.

* **green**: all records that were available at the start have landed, or there were none.
* **skipped**: nothing was started, because the stream is stopped, held or not enabled; the log names the reason.
* **red**: the stream is blocked, was stopped before it completed, or took more than 24 h. A query that fails is
  restarted automatically meanwhile; `OPERATIONS` has the reports about that.

### What you may do
* Trigger it: one run, now. `lakeward streams start STREAM` does the same from a shell.
* Pause it: no more runs. The stream is `lagging` when a run is overdue.
* `lakeward streams stop STREAM`: no run starts the stream until it is started again; runs in between are skipped.

The schedule is the one in the current file; all other values are those of the deployed generation.
"""
