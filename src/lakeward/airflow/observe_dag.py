"""`tables_observe`: reads the metadata of every table, frequently, and starts due maintenance and checks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, AssetAlias, DeltaTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import MAINTAIN, OBSERVE, QUALITY
from lakeward.platform.text import moment

if TYPE_CHECKING:
    from lakeward.platform.runtime import Project, Runtime
    from lakeward.tables.run import ObserveDocument

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=5)
SOONEST = timedelta(seconds=30)
"""A look costs seconds of CPU in Airflow whatever the project asks for."""

OBSERVE_DOC = """
### What it does
Reads the **metadata** of every table (no data, milliseconds a table), records what changed, and plans. Tables with
something due start `tables_maintain` (by the asset `lakeward_tables_due`), rows that no check has seen start
`quality_check` (by the asset `lakeward_tables_landed`).

### When it is red
A table could not be read: there is a red task `unreadable` for it, whose log says why. The other tables were looked at
all the same. Streams are not touched by this Dag.

### What you may do
Pause it to keep tables as they are; streams go on landing, and what is past its keep time still goes
(`streams_reconcile` does it then). `lakeward tables plan` shows what is due, and why the rest is not.
"""


def build_observe(every: timedelta | None = None) -> DAG:
    """The Dag that looks at all tables."""
    with DAG(
        OBSERVE,
        dag_display_name="tables: observe",
        description="Reads the metadata of every table, plans, and starts what is due.",
        schedule=DeltaTriggerTimetable(max(SOONEST, every or EVERY)),
        dagrun_timeout=timedelta(minutes=15),
        **options(owner="lakeward", tags=["tables"], doc=OBSERVE_DOC),
    ) as dag:

        @task(
            execution_timeout=timedelta(minutes=10),
            outlets=[AssetAlias("lakeward_tables")],
            doc_md="Read metadata, plan, start what is due.",
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

        # Events are kept of a task that succeeds alone: a table that cannot be read must not hold up the others, so it
        # is red in a task of its own. With none there is no such task, and no process is started for it.
        @task(map_index_template="{{ task.op_kwargs['what']['table'] }}", doc_md="A table that could not be read.")
        def unreadable(what: dict[str, str]) -> None:
            raise AirflowFailException(f"{what['table']}: {what['error']}")

        unreadable.expand(what=observe())
    return dag


@dataclass(frozen=True)
class ObservedTables:
    """What a look found.

    Attributes:
        due: tables to maintain now, best first.
        unseen: tables with rows no check has seen.
        errors: table -> why it could not be read.
    """

    due: list[str]
    unseen: list[str]
    errors: dict[str, str]


def observe_tables(runtime: Runtime, project: Project, *, busy: Collection[str] = ()) -> ObservedTables:
    """Observe all tables and tell it; what is past its keep time goes.

    Args:
        runtime, project: where.
        busy: the Dags that are waiting or at work: an event to one of them would only put another run behind it, so
            what is due waits for the next look.
    """
    from lakeward.tables.run import observe

    quiet_libraries()
    seen = observe(runtime, project)
    log.info(_sentence(seen))
    if seen["due"] and MAINTAIN in busy:
        log.info("Maintenance is running already: what is due waits for the next look", due=", ".join(seen["due"]))
    for each in seen["left"]:
        log.info(f"{each.table} is due and waits: {each.why}", next_at=moment(each.next_at))
    _tell_late(runtime, project)
    unseen = _unseen(runtime, project)
    if unseen:
        log.info(f"Rows no check has seen: {', '.join(unseen)}")
    if unseen and QUALITY in busy:
        log.info("A check is running already: what it does not see waits for the next look")
    _purge(runtime)
    due = [] if MAINTAIN in busy else seen["due"]
    return ObservedTables(due, [] if QUALITY in busy else unseen, seen["errors"])


def _sentence(seen: ObserveDocument) -> str:
    from lakeward.platform.text import count

    tables = seen["tables"]
    small = sum(int(each["small_files"]) for each in tables)
    files = sum(int(each["files"]) for each in tables)
    due = ", ".join(seen["due"]) or "nothing"
    return f"Looked at {count(len(tables), 'table')} with {count(files, 'file')}, {small:,} of them small; due: {due}"


def _unseen(runtime: Runtime, project: Project) -> list[str]:
    """Tables with a suite whose newest snapshot no run has checked, or that are held and a waiver began since.

    Says aloud which waivers are over.
    """
    from lakeward.quality.verdicts.waive import report_ended
    from lakeward.registry import maintenance, verifications, waivers
    from lakeward.supervision.reconcile import registry_of

    suites = project.suites
    with registry_of(runtime)() as connection:
        seen = maintenance.newest_facts(connection)
        newest = {name: run for name in suites for run in verifications.newest(connection, name, limit=1)}
        waived = {(each.table, each.check) for each in waivers.in_force(connection)}
        holding = {
            (name, each["check"])
            for name, run in newest.items()
            if run["verdict"] == "hold"
            for each in verifications.checks_of(connection, run["run"])
            if each["state"] == "fail" and not (each["observed"] or {}).get("waived")
        }
        for text in report_ended(connection):
            log.warning(text)

    def unseen(name: str) -> bool:
        run, facts = newest.get(name), seen.get(name)
        if facts is None or facts.snapshot_id is None or run is None:
            return facts is not None and facts.snapshot_id is not None
        of, _, _ = (run["to_commit"] or "").partition("/")  # a Delta table made again counts from the same numbers
        other = facts.snapshot_id != run["to_snapshot"] or (of and of != facts.facts.get("uuid"))
        return bool(other) or any(table == name for table, _ in waived & holding)

    return sorted(name for name in suites if unseen(name))


def _tell_late(runtime: Runtime, project: Project) -> None:
    """Say which tables wait for a proof for too long."""
    from lakeward.platform.errors import SpecError
    from lakeward.quality.results.status import proof_status
    from lakeward.supervision.late_proofs import watch
    from lakeward.supervision.reconcile import registry_of

    try:
        tables = proof_status(runtime, runtime.registry_url_file.read_text().strip(), project)
    except SpecError as error:  # told by every check run, which is red for it
        log.warning(f"Which proofs are late cannot be said: {error.what}", why=error.why, next=error.next)
        return
    with registry_of(runtime)() as connection:
        for text in watch(connection, tables, datetime.now(UTC)):
            log.warning(text)


def _purge(runtime: Runtime) -> None:
    """Delete what is older than its keep time, a few times a day."""
    from lakeward.airflow.upkeep import tidy_if_due

    removed = tidy_if_due(runtime)
    if removed:
        log.info("Removed what is past its keep time", **removed)
