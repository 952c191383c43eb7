"""`tables_maintain`: does what is due, a task a table, and tells what was decided, done and proven."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import MAINTAIN

if TYPE_CHECKING:
    from lakeward.platform.runtime import Project, Runtime

log = structlog.get_logger(__name__)

DOC = """
### What it does
Does what is due, a task for each table, in this order: **compact** (small files into large ones), **deletes** (delete
files merged), **manifests**, **tags** (the table as it stood at the end of yesterday, kept for a week), **expire** (old
snapshots), **metadata** (a table that keeps every metadata file is told to let old ones go). Of a **Delta** table,
compact is `OPTIMIZE`, expire is `VACUUM`, and metadata bounds its log. Each action is verified from the metadata
afterwards: the rows must be equal, the files must have fallen as promised. `tables_observe` starts it for what it found
due. A task's log tells the table's facts, the decision with its reasons, each action before → after, and what a person
could do about a table that makes more small files than it has to; `lakeward tables history` keeps the actions.

### Parameters
* **Table**: `namespace.table`, or a pattern: `nyc.*` takes every such table with something due.
* **Actions**: none chosen means all that are due. What is not due is not done.
* **Partitions**: compact only these, written as the plan writes them. None: all that are due.
* **Engine**: `connect` is the warm Spark server, `submit` a Spark application for each table alone: the driver
  `maintenance` of `conf/lakeward.yaml`. None chosen: what the table's policy says.
* **Dry run**: shows exactly the plan that would run, changes nothing.

### When it is red
An action failed or could not be verified; the other tables were maintained all the same. The table is readable:
nothing is published that was not verified, and expiry is held until a person has looked. *Refused* means a guard said
no: the log says which. **Clear** the red task to try again.
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
                description_md="None: as the table's policy says.",
            ),
            "dry_run": Param(False, type="boolean", title="Dry run", description_md="Show the plan, change nothing."),
        },
        **options(owner="lakeward", tags=["tables"], doc=DOC),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=10), doc_md="Which tables this run is for.")
        def choose(params: dict[str, Any], triggering_asset_events: Any = None) -> list[str]:
            from lakeward.airflow.connections import runtime
            from lakeward.platform.runtime import Project

            found = [each.extra for events in (triggering_asset_events or {}).values() for each in events]
            return chosen(runtime(), Project.locate(), params, found)

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


def chosen(runtime: Runtime, project: Project, params: dict[str, Any], found: Iterable[dict[str, Any]]) -> list[str]:
    """The tables of a run: the one somebody named, those of a pattern with something due, or those found due.

    Args:
        runtime, project: where.
        params: of the run.
        found: what `tables_observe` said of the assets that started the run.

    Raises:
        AirflowFailException: no table is named, or the pattern fits none.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.tables.run import matching

    quiet_libraries()
    pattern = str(params.get("table") or "").strip()
    due = list(dict.fromkeys(table for each in found for table in each.get("tables", ())))
    if not pattern and not due:
        text = "Name a table: namespace.table, or a pattern such as nyc.*. `lakeward tables health` lists them."
        log.error(text)
        raise AirflowFailException(text)
    if not pattern:
        log.info(f"Found due: {', '.join(due)}")
        return due
    try:
        plans = matching(runtime, project, pattern, params.get("actions") or None)
    except LakewardError as error:
        raise _told(error) from None
    for each in plans:
        if not each["actions"]:
            log.info(f"Nothing is due for {each['table']}: {'; '.join(left['why'] for left in each['not_planned'])}")
    tables = [each["table"] for each in plans if each["actions"] or each["table"] == pattern]
    log.info(f"{pattern}: {', '.join(tables) or 'nothing is due'}")
    return tables


def maintain_one(runtime: Runtime, project: Project, table: str, params: dict[str, Any], *, author: str) -> None:
    """Maintain one table and tell its facts, the decision, and each action before → after.

    Raises:
        AirflowFailException: an action failed or was refused.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.tables.run import maintain

    quiet_libraries()
    dry = bool(params.get("dry_run"))
    only = [str(each).strip() for each in params.get("partitions") or () if str(each).strip()]
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
            tell=lambda found: _tell(found, dry=dry),
        )
    except LakewardError as error:
        raise _told(error) from None
    bad = []
    for each in done["actions"]:
        text = f"{each['action']} of {table}: {each['result']}"
        if each["result"] == "done":
            log.info(text, change=each["change"], why=each["why"], duration_s=each["duration_s"], cpu_s=each["cpu_s"])
            continue
        if each["result"] == "skipped":
            log.warning(text, why=each["why"])
            continue
        log.error(text, why=each["why"])
        bad.append(f"{text}: {each['why']}")
    if bad:
        raise AirflowFailException("; ".join(bad))


def _told(error: Any) -> AirflowFailException:
    log.error(error.what, why=error.why, next=error.next)
    return AirflowFailException(str(error))


def _tell(found: dict[str, Any], *, dry: bool) -> None:
    """The table, the decision and what a person could do, before anything is done."""
    log.info(found["told"])
    _tell_plan(found["plan"], dry=dry)
    for line in found["advice"]:
        log.info(f"Advice: {line}")


def _tell_plan(plan: dict[str, Any], *, dry: bool) -> None:
    actions = plan.get("actions") or []
    if not actions:
        log.info(f"Nothing is due for {plan.get('table')}")
    for each in actions:
        log.info(
            f"{'Would' if dry else 'Will'} {each['action']}: {each['why']}",
            files=each.get("files"),
            expected_s=each.get("expected_s"),
        )
    for each in plan.get("not_planned") or []:
        log.info(f"Not {each['action']}: {each['why']}")
