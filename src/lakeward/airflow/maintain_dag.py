"""`tables_maintain`: runs due maintenance, one task for each table, and logs decisions, actions and results."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import failure, options, quiet_libraries
from lakeward.airflow.names import MAINTAIN

if TYPE_CHECKING:
    from lakeward.platform.runtime import Project, Runtime
    from lakeward.tables.observation import ShownTable
    from lakeward.tables.plan.model import PlanDocument

log = structlog.get_logger(__name__)

DOC = """
### What it does
Runs due maintenance, one task for each table, in this order: **compact** (small files into large ones), **deletes**
(delete files merged), **manifests**, **tags** (the table at the end of yesterday, kept for a week), **expire** (old
snapshots), **metadata** (sets the table property that removes old metadata files). Of a **Delta** table,
compact is `OPTIMIZE`, expire is `VACUUM`, and metadata bounds its log. Each action is verified from the metadata
afterwards: the rows must be equal, and the number of files must have fallen as planned. `tables_observe` starts it for
due tables. A task's log has the table's facts, the decision with its reasons, each action before → after, and advice
for a table that gets more small files than necessary; `lakeward tables history` lists the actions.

### Parameters
* **Table**: `namespace.table`, or a pattern: `nyc.*` takes every such table with something due.
* **Actions**: none chosen means all that are due. An action that is not due is not run.
* **Partitions**: compact only these, written as the plan writes them. None: all that are due.
* **Engine**: `connect` is the warm Spark server, `submit` a Spark application for each table alone: the driver
  `maintenance` of `conf/lakeward.yaml`. None chosen: the table's policy decides.
* **Dry run**: shows exactly the plan that would run, changes nothing.

### When it is red
An action failed or could not be verified; the other tables were maintained. The table is readable: nothing is published
that was not verified, and expiry is held until a person clears it. *Refused* means that a guard refused; the log names
it. **Clear** the red task to retry.
"""

ACTIONS = ["compact", "deletes", "manifests", "tags", "expire", "metadata"]
AT_ONCE = 2
"""Tables at a time: the warm server they share has two cores."""


def build_maintain() -> DAG:
    """The Dag that maintains tables."""
    with DAG(
        MAINTAIN,
        dag_display_name="tables: maintain",
        description="Compacts tables, merges delete files and manifests, expires snapshots, when due, and verifies it.",
        schedule=[assets.tables_due()],
        dagrun_timeout=timedelta(hours=4),
        params={
            "table": Param(
                "",
                type=["null", "string"],
                title="Table",
                description_md="`namespace.table`, or a pattern such as `nyc.*`",
            ),
            "actions": Param(
                [],
                type="array",
                items={"type": "string", "enum": ACTIONS},
                examples=ACTIONS,
                title="Actions",
                description_md="None chosen: all that are due.",
            ),
            "partitions": Param(
                [],
                type="array",
                items={"type": "string"},
                title="Partitions",
                description_md="Compact only these, as the plan names them, one a line. None: all that are due.",
            ),
            "engine": Param(
                None,
                type=["null", "string"],
                enum=[None, "connect", "submit"],
                values_display={"connect": "connect: the warm server", "submit": "submit: an application of its own"},
                title="Engine",
                description_md="None: the engine of the table's policy.",
            ),
            "dry_run": Param(False, type="boolean", title="Dry run", description_md="Show the plan, change nothing."),
        },
        **options(owner="lakeward", tags=["tables"], doc=DOC),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=10), doc_md="Which tables this run is for.")
        def choose(params: dict[str, Any], triggering_asset_events: Any = None) -> list[str]:
            from lakeward.airflow.connections import runtime
            from lakeward.platform.runtime import Project

            extras = [event.extra for events in (triggering_asset_events or {}).values() for event in events]
            return chosen(runtime(), Project.locate(), params, extras)

        @task(
            execution_timeout=timedelta(hours=1),
            max_active_tis_per_dagrun=AT_ONCE,
            map_index_template="{{ task.op_kwargs['table'] }}",
            doc_md="Do what is due for one table, and verify it.",
        )
        def maintain(table: str, params: dict[str, Any], dag_run: Any = None) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.platform.runtime import Project

            author = str(getattr(dag_run, "triggering_user_name", None) or "Airflow")
            maintain_one(runtime(spark=True), Project.locate(), table, params, author=author)

        maintain.expand(table=choose())  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def chosen(runtime: Runtime, project: Project, params: dict[str, Any], extras: Iterable[dict[str, Any]]) -> list[str]:
    """The tables of a run: the named table, the due tables of a pattern, or the due tables of the asset events.

    Args:
        runtime, project: the deployment.
        params: of the run.
        extras: the `extra` of the asset events of `tables_observe` that started the run.

    Raises:
        AirflowFailException: no table is named, or no table matches the pattern.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.tables.run import matching

    quiet_libraries()
    pattern = str(params.get("table") or "").strip()
    due = list(dict.fromkeys(table for extra in extras for table in extra.get("tables", ())))
    if not pattern and not due:
        text = "Name a table: namespace.table, or a pattern such as nyc.*. `lakeward tables health` lists them."
        log.error(text)
        raise AirflowFailException(text)
    if not pattern:
        log.info("tables chosen", tables=due)
        return due
    try:
        plans = matching(runtime, project, pattern, params.get("actions") or None)
    except LakewardError as error:
        raise failure(error) from None
    for plan in plans:
        if unread := plan.get("error"):  # its own task reports it, beside the tasks of the others
            log.error("table not readable", table=plan["table"], error=unread)
        elif not plan["actions"]:
            log.info("nothing is due", table=plan["table"], why="; ".join(item["why"] for item in plan["not_planned"]))
    tables = [plan["table"] for plan in plans if plan["actions"] or plan.get("error") or plan["table"] == pattern]
    log.info("tables chosen", pattern=pattern, tables=tables)
    return tables


def maintain_one(runtime: Runtime, project: Project, table: str, params: dict[str, Any], *, author: str) -> None:
    """Maintain one table and log its facts, the decision, and each action before → after.

    Raises:
        AirflowFailException: an action failed or was refused.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.tables.run import maintain

    quiet_libraries()
    dry = bool(params.get("dry_run"))
    only = [str(item).strip() for item in params.get("partitions") or () if str(item).strip()]
    try:
        done = maintain(
            runtime,
            project,
            table,
            params.get("actions") or None,
            partitions=only,
            dry_run=dry,
            engine=params.get("engine") or None,
            holder=author,
            on_plan=lambda report: _log_report(report, dry=dry),
        )
    except LakewardError as error:
        raise failure(error) from None
    failures = []
    for action in done["actions"]:
        name, result, why = action["action"], action["result"], action["why"]
        if result == "done":
            log.info(
                "action done",
                table=table,
                action=name,
                change=action["change"],
                why=why,
                duration_s=action["duration_s"],
                cpu_s=action["cpu_s"],
            )
            continue
        if result == "skipped":
            log.warning("action skipped", table=table, action=name, why=why)
            continue
        log.error("action not done", table=table, action=name, result=result, why=why)
        failures.append(f"{name} of {table}: {result}: {why}")
    if failures:
        raise AirflowFailException("; ".join(failures))


def _log_report(report: ShownTable, *, dry: bool) -> None:
    """Log the table's facts, the decision and the advice, before anything is done."""
    log.info("table observed", facts=report["told"])
    _log_plan(report["plan"], dry=dry)
    for line in report["advice"]:
        log.info("advice", text=line)


def _log_plan(plan: PlanDocument, *, dry: bool) -> None:
    if not plan["actions"]:
        log.info("nothing is due", table=plan["table"])
    for action in plan["actions"]:
        log.info(
            "action planned",
            action=action["action"],
            why=action["why"],
            dry_run=dry,
            files=action["files"],
            expected_s=action["expected_s"],
        )
    for item in plan["not_planned"]:
        log.info("action not planned", action=item["action"], why=item["why"])
