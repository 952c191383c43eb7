"""`tables_observe` and `tables_maintain`: metadata is read often, tables are rewritten when something is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, AssetAlias, DeltaTriggerTimetable, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import MAINTAIN, OBSERVE
from lakeward.airflow.runs import Started, start_run

if TYPE_CHECKING:
    from lakeward.runtime import Project, Runtime

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=5)
SOONEST = timedelta(seconds=30)
"""A look costs seconds of CPU in Airflow whatever the project asks for."""

OBSERVE_DOC = """
### What it does
Reads the **metadata** of every table (no data, milliseconds a table), records what changed, and plans. It starts a
run of `tables_maintain` for every table with something due, and of `quality_check` (through the asset
`lakeward_tables_landed`) when rows landed that no check has seen.

### When it is red
A table could not be read: the log names it and says why. The other tables were looked at all the same. Streams are
not touched by this Dag.

### What you may do
Pause it to keep tables as they are; streams go on landing, and what is past its keep time still goes
(`streams_reconcile` does it then). `lakeward tables plan` shows what is due, and why the rest is not.
"""

MAINTAIN_DOC = """
### What it does
Does what is due for one table, in this order: **compact** (small files into large ones), **manifests**, **expire**
(old snapshots). Each action is verified from the metadata afterwards: the rows must be equal, the files must have
fallen as promised. Before → after stands in the log and in `lakeward tables health`.

### Parameters
* **Table**: `namespace.table`.
* **Actions**: none chosen means all that are due. What is not due is not done.
* **Dry run**: shows the plan, changes nothing.

### When it is red
An action failed or could not be verified. The table is readable all the same: nothing is published that was not
verified, and expiry is held until a person has looked. *Refused* means a guard said no: the log says which.
"""

ACTIONS = ["compact", "manifests", "expire"]


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
        def observe(ti: Any = None, outlet_events: Any = None) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.runtime import Project

            def busy() -> bool:
                return bool(ti.get_dr_count(dag_id=MAINTAIN, states=["queued", "running"]))

            unseen = look_and_start(runtime(), Project.locate(), ti.start_date, busy=busy)
            if unseen:
                outlet_events[AssetAlias("lakeward_tables")].add(assets.tables_landed(), extra={"tables": unseen})

        observe()
    return dag


def look_and_start(
    runtime: Runtime,
    project: Project,
    moment: datetime,
    *,
    busy: Callable[[], bool],
    start: Callable[[str, str, dict[str, Any]], str] = start_run,
) -> list[str]:
    """Observe all tables, start maintenance of those with something due; returns those no check has seen yet.

    Raises:
        AirflowFailException: a table could not be read; the others were dealt with.
    """
    from lakeward.tables.run import observe

    quiet_libraries()
    seen = observe(runtime, project)
    log.info(_sentence(seen))
    if seen["due"] and busy():
        log.info("Maintenance is running already: what is due waits for the next look", due=", ".join(seen["due"]))
    else:
        for table in seen["due"]:
            became = start(MAINTAIN, f"observe__{table}__{moment:%Y-%m-%dT%H-%M-%S}", {"table": table})
            level = log.warning if became in (Started.NO_DAG, Started.FAILED) else log.info
            level(f"Maintenance of {table}: {became}")
    for each in seen["left"]:
        log.info(f"{each['table']} is due and waits: {each['why']}", next_at=f"{each['next_at']:%Y-%m-%d %H:%M:%S}")
    unseen = _unseen(runtime, project)
    if unseen:
        log.info(f"Rows no check has seen: {', '.join(unseen)}")
    _purge(runtime)
    if seen["errors"]:
        raise AirflowFailException("; ".join(f"{table}: {error}" for table, error in seen["errors"].items()))
    return unseen


def build_maintain() -> DAG:
    """The Dag that rewrites one table."""
    with DAG(
        MAINTAIN,
        dag_display_name="tables: maintain",
        description="Compacts, rewrites manifests and expires snapshots of one table, when due, and verifies it.",
        schedule=None,
        dagrun_timeout=timedelta(hours=2),
        params={
            "table": Param("", type="string", title="Table", description_md="`namespace.table`"),
            "actions": Param(
                [],
                type="array",
                items={"type": "string", "enum": ACTIONS},
                examples=ACTIONS,
                title="Actions",
                description_md="None chosen: all that are due.",
            ),
            "dry_run": Param(False, type="boolean", title="Dry run", description_md="Show the plan, change nothing."),
        },
        **options(owner="lakeward", tags=["tables"], doc=MAINTAIN_DOC),
    ) as dag:

        @task(execution_timeout=timedelta(hours=1), doc_md="Do what is due for one table, and verify it.")
        def maintain(params: dict[str, Any], dag_run: Any = None) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.runtime import Project

            author = str(getattr(dag_run, "triggering_user_name", None) or "Airflow")
            maintain_one(runtime(spark=True), Project.locate(), params, author=author)

        maintain()  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def maintain_one(runtime: Runtime, project: Project, params: dict[str, Any], *, author: str) -> None:
    """Maintain one table and tell each action before → after.

    Raises:
        AirflowFailException: an action failed or was refused.
    """
    from lakeward.errors import LakewardError
    from lakeward.tables.run import maintain

    quiet_libraries()
    table = str(params.get("table") or "").strip()
    if not table:
        text = "Name a table: namespace.table. `lakeward tables health` lists them."
        log.error(text)
        raise AirflowFailException(text)
    dry = bool(params.get("dry_run"))
    try:
        done = maintain(runtime, project, table, params.get("actions") or None, dry_run=dry, holder=author)
    except LakewardError as error:
        log.error(error.what, why=error.why, next=error.next)
        raise AirflowFailException(str(error)) from None
    _tell_plan(done["plan"], dry=dry)
    bad = []
    for each in done["actions"]:
        text = f"{each['action']} of {table}: {each['result']}"
        if each["result"] == "done":
            log.info(text, why=each["why"], duration_s=each["duration_s"], verified=each["verified"])
            continue
        log.error(text, why=each["why"])
        if each["result"] != "skipped":
            bad.append(f"{text}: {each['why']}")
    if bad:
        raise AirflowFailException("; ".join(bad))


def _tell_plan(plan: dict[str, Any], *, dry: bool) -> None:
    actions = plan.get("actions") or []
    if not actions:
        log.info(f"Nothing is due for {plan.get('table')}")
    for each in actions:
        log.info(f"{'Would' if dry else 'Will'} {each['action']}: {each['why']}", files=each.get("files"))
    for each in plan.get("not_planned") or []:
        log.info(f"Not {each['action']}: {each['why']}")


def _sentence(seen: dict[str, Any]) -> str:
    from lakeward.streams.words import count

    tables = seen["tables"]
    small = sum(int(each["small_files"]) for each in tables)
    files = sum(int(each["files"]) for each in tables)
    due = ", ".join(seen["due"]) or "nothing"
    return f"Looked at {count(len(tables), 'table')} with {count(files, 'file')}, {small:,} of them small; due: {due}"


def _unseen(runtime: Runtime, project: Project) -> list[str]:
    """Tables with a suite whose newest snapshot no run has checked."""
    from lakeward.control.reconcile import registry_of
    from lakeward.registry import maintenance, verifications

    suites = {file.stem for file in project.expectations.glob("*.yaml")} if project.expectations.is_dir() else set()
    with registry_of(runtime)() as connection:
        heads = {name: found["snapshot_id"] for name, found in maintenance.newest_facts(connection).items()}
        checked = {
            name: {run["to_snapshot"] for run in verifications.newest(connection, name, limit=1)} for name in suites
        }
    return sorted(name for name in suites if heads.get(name) is not None and heads[name] not in checked[name])


def _purge(runtime: Runtime) -> None:
    """Delete what is older than its keep time, a few times a day."""
    from lakeward.airflow.upkeep import tidy_if_due

    removed = tidy_if_due(runtime)
    if removed:
        log.info("Removed what is past its keep time", **removed)
