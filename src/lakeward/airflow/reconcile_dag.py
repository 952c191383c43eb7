"""`streams_reconcile`: one short task that runs a reconcile pass over all streams."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, AssetOrTimeSchedule, DeltaTriggerTimetable, task

from lakeward.airflow import assets
from lakeward.airflow.common import options
from lakeward.airflow.names import QUALITY, RECONCILE, stream_dag_id
from lakeward.airflow.runs import Started, run_state, start_run
from lakeward.platform.runtime import SUPERVISION_POOL

if TYPE_CHECKING:
    from lakeward.platform.runtime import Runtime
    from lakeward.supervision.report import DueReport

log = structlog.get_logger(__name__)

EVERY = timedelta(seconds=60)
BOX_S = 20.0
"""A run waits this long for what falls due soon, e.g. the next attempt of a driver; later ones are the next run's."""
HELD_S = 2.0
"""While somebody else reconciles, a run tries again this often: what it was asked for may be news to the other one."""
LOOK_S = 5.0
"""While it waits it looks this often: another driver may die, and no other run begins before this one ends."""
REPORTS = 3
"""A report whose run was killed before it told anything gets another run, so many in all."""

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
recovers gets a green one. People get one message for each incident, changed while it lasts, and its end (Airflow
connection `lakeward_notify`; without it the messages stand in this log). Dags may wait for the assets
`lakeward://stream/<id>/state`, `commits`, and where there is a watermark `hour` and `day`. What landed and no check has
seen starts `quality_check`.

While `tables_observe` is paused it also removes what is past its **keep time** (`keep` in `conf/lakeward.yaml`).

### When it is red
The registry could not be reached, or the pass itself failed. **Streams go on landing meanwhile**: nothing is stopped
because this Dag is red. Look at `lakeward stack status`.

### What you may do
* Pause it: nothing is launched or restarted by itself any more, and nothing is removed when its keep time is over;
  `lakeward streams start` and `stop` still work.
* Trigger it: the same look, now. It is safe at any time.
"""


def build(every: timedelta = EVERY) -> DAG:
    """The Dag."""
    with DAG(
        RECONCILE,
        dag_display_name="streams: reconcile",
        description="Keeps every stream running that should run: launches, adopts, restarts.",
        schedule=AssetOrTimeSchedule(timetable=DeltaTriggerTimetable(every), assets=[assets.streams_attention()]),
        dagrun_timeout=timedelta(minutes=5),
        # Two, of which the lease lets one work: with one, Airflow's parser may note that the Dag is full when its run
        # has just ended (it counts first, and writes later), and no run begins until the file is parsed again.
        **options(owner="lakeward", tags=["streams"], doc=DOC, max_active_runs=2),
    ) as dag:
        # Supervision does not queue behind maintenance: it has a slot of its own where there is a pool for it (the
        # embedded Airflow), and is before anything else that waits for one of the few slots elsewhere.
        @task(
            execution_timeout=timedelta(minutes=2),
            pool=os.environ.get(SUPERVISION_POOL, "default_pool"),
            priority_weight=1000,
            weight_rule="absolute",
            doc_md="Look at all streams and do what is due.",
            outlets=[assets.of_streams()],
        )
        def reconcile(ti: Any = None, outlet_events: Any = None) -> None:
            from lakeward.airflow.connections import runtime

            addresses = runtime()
            look_and_act(addresses, tell=notify_people)
            tidy(addresses)
            # Last: Airflow sends them when the task has ended well.
            announce_events(addresses, outlet_events)
            ask_for_checks(addresses, outlet_events, ti)

        reconcile()
    return dag


def notify_people(runtime: Runtime) -> None:
    """Send what people have not heard of incidents yet."""
    from lakeward.airflow import deadlines
    from lakeward.airflow.notify import IncidentNotifier
    from lakeward.supervision.reconcile import registry_of

    connect = registry_of(runtime)
    deadlines.close_ended(connect, run_state)
    IncidentNotifier(connect).notify({})


def announce_events(runtime: Runtime, outlet_events: Any) -> None:
    """Emit what happened to streams as asset events."""
    from lakeward.supervision.reconcile import registry_of

    announced = assets.announce(registry_of(runtime), outlet_events)
    if announced:
        log.info(f"Announced {len(announced)} events of streams", assets=announced[:20])


def ask_for_checks(runtime: Runtime, outlet_events: Any, ti: Any) -> None:
    """Start a check of what streams have landed since the last one; never while a run is waiting or at work."""
    from lakeward.airflow.project import settings
    from lakeward.platform.runtime import Project
    from lakeward.supervision import check_requests
    from lakeward.supervision.reconcile import registry_of

    connect, suites = registry_of(runtime), Project.locate().suites
    if not suites:
        return
    with connect() as connection:
        found = check_requests.unseen(connection, suites, settings().checker.every.timedelta)
    if not found or ti.get_dr_count(dag_id=QUALITY, states=["queued", "running"]):
        return
    outlet_events[assets.of_streams()].add(assets.tables_landed(), extra={"tables": sorted(found)})
    with connect() as connection:
        check_requests.remember(connection, found)
    log.info(f"Rows no check has seen: {', '.join(sorted(found))}")


def tidy(runtime: Runtime) -> None:
    """Remove what is past its keep time if `tables_observe`, whose work that is, did not for long: it may be paused."""
    from lakeward.airflow.upkeep import tidy_if_due

    try:
        removed = tidy_if_due(runtime, stand_in=True)
    except Exception:  # named boundary: a pass that did its work is no failure for what could not be removed
        log.exception("What is past its keep time could not be removed; the next pass tries again")
        return
    if removed:
        log.info("Removed what is past its keep time", **removed)


def look_and_act(
    runtime: Runtime,
    *,
    box_s: float = BOX_S,
    sleep: Callable[[float], None] = time.sleep,
    start: Callable[[str, str, Mapping[str, object]], str] = start_run,
    state: Callable[[str, str], str | None] = run_state,
    tell: Callable[[Runtime], None] | None = None,
    **pass_options: Any,
) -> None:
    """Reconcile until nothing falls due within the time box, and start the reports that are due.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    from lakeward.airflow.project import settings
    from lakeward.supervision import report
    from lakeward.supervision.reconcile import reconcile_once, registry_of

    connect = registry_of(runtime)

    def untold(item: DueReport) -> bool:
        with connect() as connection:
            return (item.stream, item.run) in [(each.stream, each.run) for each in report.due(connection)]

    end = time.monotonic() + box_s
    again = False
    while True:
        summary = reconcile_once(connect, runtime, holder="Airflow", settings=settings, **pass_options)
        news = not again or bool(summary.done or summary.edges or summary.proved)
        if news:
            log.info(summary.text)
        with connect() as connection:
            due = report.due(connection)
        for item in due:
            run, became = start_report(item, start, state, untold)
            log.info(f"Report of stream {item.stream}: {became}", run_id=run)
        if tell is not None:
            tell(runtime)  # before any waiting: somebody may have to get up
        after_s = HELD_S if summary.held_by is not None else summary.after_s
        if after_s is None or time.monotonic() + after_s > end:
            return
        if news and summary.held_by is None:
            log.info(f"Something falls due in {after_s:.0f} s: waiting for it")
        again = True
        sleep(min(LOOK_S, max(0.2, after_s)))


def start_report(
    due: DueReport,
    start: Callable[[str, str, Mapping[str, object]], str],
    state: Callable[[str, str], str | None],
    untold: Callable[[DueReport], bool],
) -> tuple[str, str]:
    """Start the run that tells a report: (its id, what became of the request).

    A report that is still due after its run has ended was never told: whoever ran it was killed.
    """
    dag, run, became = stream_dag_id(due.stream), due.run, ""
    conf = {"op": "report", "comment": "the state of the stream changed", "found": due.found}
    for number in range(1, REPORTS + 1):
        run = due.run if number == 1 else f"{due.run}__{number}"
        became = start(dag, run, conf)
        if became != Started.EXISTS or state(dag, run) not in ("success", "failed") or not untold(due):
            break
    return run, became
