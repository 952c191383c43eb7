"""`tables_observe`: reads the metadata of every table, frequently, and starts due maintenance and checks."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, AssetAlias, AssetOrTimeSchedule, DeltaTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import MAINTAIN, OBSERVE, QUALITY
from lakeward.platform.boundary import attempt
from lakeward.platform.text import moment

if TYPE_CHECKING:
    from lakeward.platform.runtime import Project, Runtime

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=5)
SOONEST = timedelta(seconds=30)
"""The shortest interval, because each observation costs seconds of CPU in Airflow."""
FALLBACK = timedelta(minutes=10)
"""The schedule while no table changes: for what only time makes due, and for a triggerer that is away."""

OBSERVE_DOC = """
### What it does
Reads the **metadata** of every table (no data, milliseconds per table), records changes, and plans maintenance. Tables
with due actions start `tables_maintain` (by the asset `lakeward_tables_due`), tables with unchecked rows start
`quality_check` (by the asset `lakeward_tables_landed`).

A watcher on the triggerer starts a run when tables changed, `observe` of the policies (default 5m) after the last one
at the soonest. While nothing changes, one run in ten minutes finds what only time makes due.

### When it is red
A table could not be read. The log of its red task `unreadable` names the reason. The other tables were observed. This
Dag does not touch streams.

### What you may do
Pause it to stop automatic maintenance and checks. Streams continue to land rows, and `streams_reconcile` takes over the
removal of expired data. `lakeward tables plan` shows the due actions, and why the others are not due.
"""


def build_observe(every: timedelta | None = None) -> DAG:
    """The Dag that observes all tables.

    Args:
        every: how long after an observation the next one may follow.
    """
    soonest = max(SOONEST, every or EVERY)
    with DAG(
        OBSERVE,
        dag_display_name="tables: observe",
        description="Reads the metadata of every table, plans, and starts due maintenance and checks.",
        schedule=AssetOrTimeSchedule(
            timetable=DeltaTriggerTimetable(max(FALLBACK, soonest)), assets=[assets.tables_changed(soonest)]
        ),
        dagrun_timeout=timedelta(minutes=15),
        **options(owner="lakeward", tags=["tables"], doc=OBSERVE_DOC),
    ) as dag:

        @task(
            execution_timeout=timedelta(minutes=10),
            outlets=[AssetAlias("lakeward_tables")],
            doc_md="Read metadata, plan, start due maintenance and checks.",
        )
        def observe(ti: Any = None, outlet_events: Any = None) -> list[dict[str, str]]:
            from lakeward.airflow.connections import runtime
            from lakeward.platform.runtime import Project

            busy = {dag for dag in (MAINTAIN, QUALITY) if ti.get_dr_count(dag_id=dag, states=["queued", "running"])}
            there = observe_tables(runtime(), Project.locate(), busy=busy)
            for asset, tables in ((assets.tables_due(), there.due), (assets.tables_landed(), there.unseen)):
                if tables:
                    outlet_events[AssetAlias("lakeward_tables")].add(asset, extra={"tables": tables})
            return [{"table": table, "error": error} for table, error in there.errors.items()]

        # Airflow keeps only the events of a task that succeeded. A table that cannot be read must not block the others,
        # so it is red in a task of its own. Without such a table no task runs, and no process is started.
        @task(map_index_template="{{ task.op_kwargs['what']['table'] }}", doc_md="A table that could not be read.")
        def unreadable(what: dict[str, str]) -> None:
            raise AirflowFailException(f"{what['table']}: {what['error']}")

        unreadable.expand(what=observe())
    return dag


@dataclass(frozen=True)
class ObservedTables:
    """The result of one observation of all tables.

    Attributes:
        due: tables to maintain now, the most urgent first.
        unseen: tables with unchecked rows.
        errors: table -> why it could not be read.
    """

    due: list[str]
    unseen: list[str]
    errors: dict[str, str]


def observe_tables(runtime: Runtime, project: Project, *, busy: Collection[str] = ()) -> ObservedTables:
    """Observe all tables, log the result, and remove expired data.

    Args:
        runtime, project: the deployment.
        busy: the Dags with a queued or running run. An event would only queue another run behind it, so due tables wait
            for the next observation.
    """
    from lakeward.supervision.reconcile import registry_of
    from lakeward.tables import changes
    from lakeward.tables.run import observe

    quiet_libraries()
    connect, began = registry_of(runtime), time.monotonic()
    with connect() as connection:
        state = changes.state_of(connection, runtime, project)  # before: a commit meanwhile is seen by the next one
    seen = observe(runtime, project)
    log.info(
        "tables observed",
        tables=len(seen["tables"]),
        files=sum(int(table["files"]) for table in seen["tables"]),
        small_files=sum(int(table["small_files"]) for table in seen["tables"]),
        due=seen["due"],
    )
    if seen["due"] and MAINTAIN in busy:
        log.info("maintenance already runs, due tables wait", due=seen["due"])
    for table in seen["left"]:
        log.info("table due, waits", table=table.table, why=table.why, next_at=moment(table.next_at))
    _report_late_proofs(runtime, project)
    unseen = _unseen(runtime, project)
    if unseen:
        log.info("unchecked rows found", tables=unseen)
    if unseen and QUALITY in busy:
        log.info("check already runs, newer rows wait", tables=unseen)
    _purge(runtime)
    next_at = min((table.next_at for table in seen["left"]), default=None)
    with connect() as connection:
        changes.record(connection, state, next_at, seen["errors"], time.monotonic() - began)
    due = [] if MAINTAIN in busy else seen["due"]
    return ObservedTables(due, [] if QUALITY in busy else unseen, seen["errors"])


def _unseen(runtime: Runtime, project: Project) -> list[str]:
    """Tables with a suite whose newest snapshot is unchecked, or that are held and have got a waiver since.

    Ended waivers are logged.
    """
    from lakeward.quality.verdicts.waive import report_ended
    from lakeward.registry import maintenance, verifications, waivers
    from lakeward.supervision.reconcile import registry_of

    suites = project.suites
    with registry_of(runtime)() as connection:
        seen = maintenance.newest_facts(connection)
        newest = {name: run for name in suites for run in verifications.newest(connection, name, limit=1)}
        waived = {(waiver.table, waiver.check) for waiver in waivers.in_force(connection)}
        holding = {
            (name, check["check"])
            for name, run in newest.items()
            if run["verdict"] == "hold"
            for check in verifications.checks_of(connection, run["run"])
            if check["state"] == "fail" and not (check["observed"] or {}).get("waived")
        }
        for text in report_ended(connection):
            log.warning("waiver ended", detail=text)

    def unseen(name: str) -> bool:
        run, facts = newest.get(name), seen.get(name)
        if facts is None or facts.snapshot_id is None or run is None:
            return facts is not None and facts.snapshot_id is not None
        uuid, _, _ = (run["to_commit"] or "").partition("/")  # a recreated Delta table counts from the same numbers
        moved = facts.snapshot_id != run["to_snapshot"] or (uuid and uuid != facts.facts.get("uuid"))
        return bool(moved) or any(table == name for table, _ in waived & holding)

    return sorted(name for name in suites if attempt(f"unchecked rows of table {name}", partial(unseen, name)) is True)


def _report_late_proofs(runtime: Runtime, project: Project) -> None:
    """Log the tables whose proof is late."""
    from lakeward.platform.errors import SpecError
    from lakeward.quality.results.status import proof_status
    from lakeward.supervision.late_proofs import watch
    from lakeward.supervision.reconcile import registry_of

    try:
        tables = proof_status(runtime, runtime.registry_url_file.read_text().strip(), project)
    except SpecError as error:  # every check run reports it and is red
        log.warning("late proofs not known", error=error.what, why=error.why, next=error.next)
        return
    with registry_of(runtime)() as connection:
        for text in watch(connection, tables, datetime.now(UTC)):
            log.warning("proof late", detail=text)


def _purge(runtime: Runtime) -> None:
    """Remove expired data, a few times a day."""
    from lakeward.airflow.upkeep import tidy_if_due

    removed = tidy_if_due(runtime)
    if removed:
        log.info("expired data removed", **removed)
