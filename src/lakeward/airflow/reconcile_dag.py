"""`streams_reconcile`: one short task that looks at all streams and does what is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import structlog
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, AssetOrTimeSchedule, DeltaTriggerTimetable, task

from lakeward.airflow import assets
from lakeward.airflow.common import options
from lakeward.airflow.names import stream_dag_id

log = structlog.get_logger(__name__)

DAG_ID = "streams_reconcile"
EVERY = timedelta(seconds=60)
BOX_S = 20.0
"""A run waits this long for what falls due soon, e.g. the next attempt of a driver; later ones are the next run's."""

DOC = """
### What it does
Every minute, and at once when the watcher saw something, it compares what is **wanted** of every stream with what
**runs**, and does what is due:

* launches the driver of a stream that should run and does not,
* adopts a driver that runs although nobody recorded it,
* finds a driver dead, gives its leases back, and launches it again after a pause that grows (10 s, 20 s, 40 s, ...,
  at most 10 min; 30 min of landed batches make it start again at 10 s),
* kills what does not answer any more, and never a driver that merely could not be asked.

A stream that gets into trouble gets a **red run** of its own Dag `stream__<id>` with all there is to know; one that
recovers gets a green one.

### When it is red
The registry could not be reached, or the pass itself failed. **Streams go on landing meanwhile**: nothing is stopped
because this Dag is red. Look at `lakeward stack status`.

### What you may do
* Pause it: nothing is launched or restarted by itself any more; `lakeward streams start` and `stop` still work.
* Trigger it: the same look, now. It is safe at any time.
"""


def build(known: Sequence[str], every: timedelta = EVERY) -> DAG:
    """The Dag. `known`: ids of the streams that have a Dag of their own, for the reports."""
    with DAG(
        DAG_ID,
        dag_display_name="streams: reconcile",
        description="Keeps every stream running that should run: launches, adopts, restarts.",
        schedule=AssetOrTimeSchedule(timetable=DeltaTriggerTimetable(every), assets=[assets.streams_to_look_at()]),
        dagrun_timeout=timedelta(minutes=5),
        **options(owner="lakeward", tags=["streams"], doc=DOC),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=2), doc_md="Look at all streams once and do what is due.")
        def reconcile() -> list[dict[str, Any]]:
            from lakeward.airflow.connections import runtime

            return look_and_act(runtime(), known)

        TriggerDagRunOperator.partial(
            task_id="report",
            logical_date=None,
            skip_when_already_exists=True,
            openlineage_inject_parent_info=False,
            doc_md="One run of `stream__<id>` for every stream whose trouble began or ended.",
        ).expand_kwargs(reconcile())
    return dag


def look_and_act(
    runtime: Any,
    known: Sequence[str],
    *,
    box_s: float = BOX_S,
    sleep: Callable[[float], None] = time.sleep,
    **pass_options: Any,
) -> list[dict[str, Any]]:
    """Reconcile until nothing falls due within the time box; returns the reports to trigger.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    from lakeward.control import report
    from lakeward.control.reconcile import reconcile_once, registry_of

    connect = registry_of(runtime)
    end = time.monotonic() + box_s
    summary = reconcile_once(connect, runtime, holder="Airflow", **pass_options)
    log.info(summary.text)
    while summary.after_s is not None and time.monotonic() + summary.after_s < end:
        log.info(f"Something falls due in {summary.after_s:.0f} s: waiting for it")
        sleep(max(0.2, summary.after_s))
        summary = reconcile_once(connect, runtime, holder="Airflow", **pass_options)
        log.info(summary.text)
    with connect() as connection:
        due = report.due(connection)
    return [
        {
            "trigger_dag_id": stream_dag_id(item.stream),
            "trigger_run_id": item.run,
            "conf": {"op": "report", "comment": "the state of the stream changed"},
        }
        for item in due
        if item.stream in known
    ]
