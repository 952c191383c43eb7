"""`quality_check`: proves what landed since the last proof in one process, and tells each table's verdict in a task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import QUALITY

if TYPE_CHECKING:
    from lakeward.quality.request import Scope
    from lakeward.runtime import Project, Runtime

log = structlog.get_logger(__name__)

SCOPES = {
    "": "as each check says",
    "increment": "increment: what landed since the last proof",
    "window": "window: what landed in the last 24 hours",
    "table": "table: all of it",
}

DOC = """
### What it does
Runs the suites in `expectations/` on the snapshots since the last verified one. `check` has the checker work on all due
tables, or does it itself, slower, where none is up; then a task for each table tells its verdict: the range, what was
decided from metadata alone, the rows read, what failed since when, where readers of `verified` stand, and the cost.
When every critical check passes, the branch `verified` of the table moves to exactly the snapshot that was checked, so
its readers only ever see proven rows.
`streams_reconcile` starts it when streams have landed rows that no check has seen, once a minute at most
(`checker.every` in `conf/lakeward.yaml`), and `tables_observe` for what was written otherwise; never while a run is
waiting or at work: what lands meanwhile is found by the next look.

### When it is red
A table's task says **held** (a critical check failed) or **not checked** (one could not be computed, which is neither a
pass nor a failure). `verified` stays where it was; **the stream goes on landing**. Its log names the check, how many
rows of how many, an example, the first bad snapshot with its offsets, and what to do. `check` itself is red only when
nothing could be checked at all. **Clear** `check` to check again.

### Parameters
* **Table**: `namespace.table`, due or not, or a pattern: `nyc.*` takes every such table that is due. Empty: all due.
* **Scope**: how much is looked at.
* **Dry run**: which tables are due, why, and about how many rows; checks nothing.
"""


def build() -> DAG:
    """The Dag."""
    with DAG(
        QUALITY,
        dag_display_name="quality: check",
        description="Checks what landed against the suites and moves the verified branch.",
        schedule=[assets.tables_landed()],
        dagrun_timeout=timedelta(hours=1),
        params={
            "table": Param(
                "",
                type=["null", "string"],
                title="Table",
                description_md="`namespace.table`, or a pattern such as `nyc.*`; empty: every due table",
            ),
            "scope": Param(
                "", type="string", enum=list(SCOPES), values_display=SCOPES, title="Scope", description_md="How much."
            ),
            "dry_run": Param(False, type="boolean", title="Dry run", description_md="Show what is due, check nothing."),
        },
        **options(owner="lakeward", tags=["quality"], doc=DOC),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=45), doc_md="Check, record, move `verified`.")
        def check(params: dict[str, Any]) -> list[dict[str, str]]:
            from lakeward.airflow.connections import runtime
            from lakeward.airflow.notify import IncidentNotifier
            from lakeward.control.reconcile import registry_of
            from lakeward.runtime import Project

            addresses = runtime(spark=not params.get("dry_run"))
            found = check_tables(addresses, Project.locate(), params)
            IncidentNotifier(registry_of(addresses)).notify({})  # the next look at the streams would, a minute later
            return found

        @task(map_index_template="{{ task.op_kwargs['of']['table'] }}", doc_md="What the check of one table found.")
        def verdict(of: dict[str, str]) -> None:
            from lakeward.airflow.connections import runtime

            tell_verdict(runtime(), of["table"], of["run"])

        verdict.expand(of=check())  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def check_tables(runtime: Runtime, project: Project, params: dict[str, Any]) -> list[dict[str, str]]:
    """Check what is asked for, or what is due.

    Returns:
        Table and run of each result. No rows: what is returned stands in Airflow's database.

    Raises:
        AirflowFailException: nothing could be checked: a suite is wrong or missing, the registry is down.
    """
    from lakeward.errors import LakewardError
    from lakeward.quality.ask import check
    from lakeward.quality.dry import due_of

    quiet_libraries()
    pattern, scope = str(params.get("table") or "").strip(), _scope(params)
    url = runtime.registry_url_file.read_text().strip()
    try:
        tables: Sequence[str] | None = [pattern] if pattern else None
        if params.get("dry_run") or any(each in pattern for each in "*?["):
            tables = []
            for each in due_of(runtime, url, project, pattern or "*"):
                log.info(f"{each.table}: {'due' if each.due else 'not due'}: {each.why}")
                tables += [each.table] if each.due else []
        if params.get("dry_run"):
            return []
        results = check(runtime, url, project, tables, scope) if tables is None or tables else []
    except LakewardError as error:
        log.error(error.what, why=error.why, next=error.next)
        raise AirflowFailException(str(error)) from None
    if not results:
        log.info("Nothing is due: every head is proven, or held and unchanged")
    return [{"table": each["table"], "run": each["run"]} for each in results]


def _scope(params: dict[str, Any]) -> Scope | None:
    return params.get("scope") or None


def tell_verdict(runtime: Runtime, table: str, run: str) -> None:
    """Tell the story of one table's run.

    Raises:
        AirflowFailException: the verdict is `hold` or `error`, each in words of its own.
    """
    from lakeward.control.reconcile import registry_of
    from lakeward.quality.records import recorded
    from lakeward.quality.tell import lines
    from lakeward.registry import verifications

    with registry_of(runtime)() as connection:
        found = verifications.of_run(connection, run)
        checks = verifications.checks_of(connection, run)
    if found is None:
        log.info("Nothing new had landed: the earlier verdict stands")
        return
    for level, text in lines(recorded(found, checks)):
        getattr(log, level)(text)
    if found["verdict"] == "hold":
        raise AirflowFailException(f"{table} is held: a critical check failed; readers of verified are safe")
    if found["verdict"] == "error":
        raise AirflowFailException(f"{table} was not checked: this is neither a pass nor a failure of its rows")
