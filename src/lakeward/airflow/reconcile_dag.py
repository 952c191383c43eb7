"""`streams_reconcile`: one short task that runs a reconcile pass over all streams."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, AssetOrTimeSchedule, DeltaTriggerTimetable, task

from lakeward.airflow import assets
from lakeward.airflow.common import options
from lakeward.airflow.names import QUALITY, RECONCILE, stream_dag_id
from lakeward.airflow.tasks import patience
from lakeward.airflow.tasks.dag_runs import Started, run_state, start_run
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.runtime import SUPERVISION_POOL

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from lakeward.platform.runtime import Runtime
    from lakeward.supervision.report import DueReport

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=10)
"""The interval of runs without an event (`dead_mans_switch.SCHEDULE_S`)."""
BOX_S = 20.0
"""The time a run waits for decisions that fall due soon, e.g. the next attempt of a driver; the rest wait for the next
run."""
HELD_S = 2.0
"""The retry interval while another pass holds the lease, which may have started before this run's event."""
OBSERVE_S = 5.0
"""The interval of passes while a run waits: another driver may die, and no other run begins before this one ends."""
WAITING_S = 120.0
"""A run is ended when it waits for others for this long in one step, in seconds. CPU it is not given does not count."""
REPORTS = 3
"""The most runs for one report: a run that is killed before it recorded the report is started again."""

DOC = """
### What it does
When the watcher on Airflow's triggerer sees something to do, and every ten minutes without that, it compares the
**desired** state of every stream with the **observed** state, and acts:

* It launches the driver of a stream that should run and does not run.
* It adopts a running driver whose launch was not recorded.
* It finalizes a dead driver, releases its leases, and launches it again after a growing pause (10 s, 20 s, 40 s, ...,
  at most 10 min; after 30 min of landed batches the pause is 10 s again).
* It kills a driver that sends no heartbeat or lands nothing. It never kills a driver whose state is unknown.

A stream that gets into trouble gets a **red run** of its own Dag `stream__<id>` with the report; a stream that recovers
gets a green run. People get one message for each incident, which is updated and resolved (Airflow connection
`lakeward_notify`; without it the messages are in this log). Other Dags may wait for the assets
`lakeward://stream/<id>/state`, `commits`, and, with a watermark, `hour` and `day`. Unchecked rows start
`quality_check`.

While `tables_observe` is paused, this Dag also removes expired data (`keep` in `conf/lakeward.yaml`).

The watcher looks every five seconds. A dead driver starts a run at once; commits, unchecked rows and what falls due
start one at most once a minute. While nothing is to be done, the watcher records the states itself, and no run is
needed.

### When it is red
The registry could not be reached, or the pass failed. **Streams continue to land rows**: nothing is stopped because
this Dag is red. Run `lakeward stack status`.

### What you may do
* Pause it: no driver is launched or restarted automatically, and no expired data is removed; `lakeward streams start`
  and `stop` still work.
* Trigger it: one pass, now. It is safe at any time.
"""


def build(every: timedelta = EVERY) -> DAG:
    """The Dag that reconciles streams."""
    with DAG(
        RECONCILE,
        dag_display_name="streams: reconcile",
        description="Keeps every stream running that should run: launches, adopts, restarts.",
        schedule=AssetOrTimeSchedule(timetable=DeltaTriggerTimetable(every), assets=[assets.streams_attention()]),
        # Only for a run that is lost: on a starved machine a run that works may take long, and `WAITING_S` ends a hang.
        dagrun_timeout=timedelta(minutes=30),
        # Two runs, of which the lease lets one work. With one, Airflow's parser may record that the Dag is full when
        # its run has just ended (it counts first and writes later), and no run begins until the file is parsed again.
        **options(owner="lakeward", tags=["streams"], doc=DOC, max_active_runs=2),
    ) as dag:
        # Supervision does not queue behind maintenance: it has its own slot if a pool exists for it (the embedded
        # Airflow), and the highest priority in the default pool otherwise.
        # No `execution_timeout`: it counts CPU that was never given (`lakeward.airflow.tasks.patience`).
        @task(
            pool=os.environ.get(SUPERVISION_POOL, "default_pool"),
            priority_weight=1000,
            weight_rule="absolute",
            doc_md="Observe all streams and act.",
            outlets=[assets.of_streams()],
        )
        def reconcile(ti: Any = None, outlet_events: Any = None) -> None:
            # What Airflow has loaded is not searched for garbage again with each import: a third of their CPU.
            gc.freeze()
            from lakeward.airflow.connections import runtime

            with patience.limit("The reconcile pass", WAITING_S) as waiting:
                addresses = runtime()
                reconcile_streams(addresses, notify=notify_people, step=waiting.step)
                waiting.step()
                remove_expired(addresses)
                waiting.step()
                # Last: Airflow sends events when the task has succeeded.
                announce_events(addresses, outlet_events)
                ask_for_checks(addresses, outlet_events, ti)

        reconcile()
    return dag


def notify_people(runtime: Runtime) -> None:
    """Send the pending messages about incidents."""
    from lakeward.airflow import deadlines
    from lakeward.airflow.notify import IncidentNotifier
    from lakeward.supervision.reconcile import registry_of

    connect = registry_of(runtime)
    deadlines.close_ended(connect, run_state)
    IncidentNotifier(connect).notify({})


def announce_events(runtime: Runtime, outlet_events: Any) -> None:
    """Emit state changes and commits of streams as asset events."""
    from lakeward.supervision.reconcile import registry_of

    announced = assets.announce(registry_of(runtime), outlet_events)
    if announced:
        log.info("stream events announced", events=len(announced), assets=announced[:20])


def ask_for_checks(runtime: Runtime, outlet_events: Any, ti: Any) -> None:
    """Start a check of the unchecked rows of streams; never while a check run is queued or running."""
    from lakeward.airflow.project import settings
    from lakeward.platform.runtime import Project
    from lakeward.supervision import check_requests
    from lakeward.supervision.reconcile import registry_of

    connect, suites = registry_of(runtime), Project.locate().suites
    if not suites:
        return
    with connect() as connection:
        unseen = check_requests.unseen(connection, suites, settings().checker.every.timedelta)
    if not unseen or ti.get_dr_count(dag_id=QUALITY, states=["queued", "running"]):
        return
    outlet_events[assets.of_streams()].add(assets.tables_landed(), extra={"tables": sorted(unseen)})
    with connect() as connection:
        check_requests.remember(connection, unseen)
    log.info("unchecked rows found", tables=sorted(unseen))


def remove_expired(runtime: Runtime) -> None:
    """Remove expired data if `tables_observe`, which usually does it, did not for long: it may be paused."""
    from lakeward.airflow.upkeep import tidy_if_due

    try:
        removed = tidy_if_due(runtime, stand_in=True)
    except Exception:  # named boundary: a pass does not fail because of retention cleanup
        log.exception("expired data not removed, the next pass retries")
        return
    if removed:
        log.info("expired data removed", **removed)


def reconcile_streams(
    runtime: Runtime,
    *,
    box_s: float = BOX_S,
    sleep: Callable[[float], None] = time.sleep,
    start: Callable[[str, str, Mapping[str, object]], str] = start_run,
    state: Callable[[str, str], str | None] = run_state,
    notify: Callable[[Runtime], None] | None = None,
    step: Callable[[], None] = lambda: None,
    **pass_options: Any,
) -> None:
    """Reconcile until nothing falls due within the time box, and start the reports that are due.

    `step` is called at each transaction on the registry: the pass makes progress.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    from lakeward.airflow.project import settings
    from lakeward.supervision import report
    from lakeward.supervision.reconcile import reconcile_once, registry_of

    registry = registry_of(runtime)

    def connect() -> AbstractContextManager[Connection]:
        step()
        return registry()

    def still_due(item: DueReport) -> bool:
        with connect() as connection:
            return (item.stream, item.run) in [(other.stream, other.run) for other in report.due(connection)]

    end = time.monotonic() + box_s
    repeated = False
    while True:
        summary = reconcile_once(connect, runtime, holder="Airflow", settings=settings, **pass_options)
        changed = not repeated or bool(summary.done or summary.edges or summary.proved)
        if changed:
            log.info("reconcile pass finished", summary=summary.text)
        with connect() as connection:
            due = report.due(connection)
        for item in due:
            begun = attempt(f"report of stream {item.stream}", partial(start_report, item, start, state, still_due))
            if not isinstance(begun, Failure):
                run, became = begun
                log.info("stream report requested", stream=item.stream, result=str(became), run_id=run)
        if notify is not None:
            notify(runtime)  # before any waiting: a person may be needed
        after_s = HELD_S if summary.held_by is not None else summary.after_s
        if after_s is None or time.monotonic() + after_s > end:
            return
        if changed and summary.held_by is None:
            log.info("waiting for the next decision", due_in_s=round(after_s, 1))
        repeated = True
        sleep(min(OBSERVE_S, max(0.2, after_s)))


def start_report(
    due: DueReport,
    start: Callable[[str, str, Mapping[str, object]], str],
    state: Callable[[str, str], str | None],
    still_due: Callable[[DueReport], bool],
) -> tuple[str, str]:
    """Start the run that logs a report: (its id, the result of the request).

    A report that is still due after its run has ended was not recorded: the run was killed.
    """
    dag, run, became = stream_dag_id(due.stream), due.run, ""
    conf = {"op": "report", "comment": "the state of the stream changed", "found": due.found}
    for number in range(1, REPORTS + 1):
        run = due.run if number == 1 else f"{due.run}__{number}"
        became = start(dag, run, conf)
        if became != Started.EXISTS or state(dag, run) not in ("success", "failed") or not still_due(due):
            break
    return run, became
