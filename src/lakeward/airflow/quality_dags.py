"""`quality_check`: checks the snapshots since the last proof in one process and logs each table's verdict in a task."""

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
    from lakeward.platform.runtime import Project, Runtime
    from lakeward.quality.results.records import RunDocument
    from lakeward.quality.runs.request import Scope

log = structlog.get_logger(__name__)

POLICY_WITHIN_S = 20 * 60.0
HELD = 3
"""How the command ends that leaves a table held, having said why."""

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
Where only checks with `on_fail: quarantine` hold a table, and few of the new rows fail them, the task of the table
moves those rows into the stream's quarantine, checks again what is left, and `verified` moves; a message tells which
rows went where. What speaks against it (too many, a stream that reads the table as it grows, another check that holds)
is said in the log, in the incident and by `quality show`, and a person decides.
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
            from lakeward.platform.runtime import Project

            return check_tables(runtime(spark=not params.get("dry_run")), Project.locate(), params)

        @task(
            map_index_template="{{ task.op_kwargs['of']['table'] }}",
            doc_md="What the check of one table found; `on_fail: quarantine` is carried out here.",
        )
        def verdict(of: dict[str, str]) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.airflow.notify import IncidentNotifier
            from lakeward.supervision.reconcile import registry_of

            addresses = runtime()
            try:
                log_verdict(addresses, of["table"], of["run"])
            finally:  # the next look at the streams would, a minute later
                IncidentNotifier(registry_of(addresses)).notify({})

        verdict.expand(of=check())  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def check_tables(runtime: Runtime, project: Project, params: dict[str, Any]) -> list[dict[str, str]]:
    """Check what is asked for, or what is due.

    Returns:
        Table and run of each result. No rows: what is returned stands in Airflow's database.

    Raises:
        AirflowFailException: nothing could be checked: a suite is wrong or missing, the registry is down.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.quality.runs.ask import check
    from lakeward.quality.runs.dry_run import due_of

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


def log_verdict(runtime: Runtime, table: str, run: str) -> None:
    """Tell the story of one table's run; where it holds and the suite has a policy for that, carry the policy out.

    Raises:
        AirflowFailException: the verdict is `hold` or `error`, each in words of its own.
    """
    found = log_run(runtime, table, run)
    if found is not None and by_policy(found):
        carry_out(runtime, table)
        found = log_run(runtime, table, None if found is None else found["run"], newer=True) or found
    if found is None:
        log.info("Nothing new had landed: the earlier verdict stands")
        return
    if found["verdict"] == "hold":
        raise AirflowFailException(f"{table} is held: a critical check failed; readers of verified are safe")
    if found["verdict"] == "error":
        raise AirflowFailException(f"{table} was not checked: this is neither a pass nor a failure of its rows")


def log_run(runtime: Runtime, table: str, run: str | None, *, newer: bool = False) -> RunDocument | None:
    """Tell a recorded run and give it; None where there is none.

    Args:
        newer: the table's newest run, if it is another one.
    """
    from lakeward.quality.results.records import recorded
    from lakeward.quality.results.text import lines
    from lakeward.registry import verifications
    from lakeward.supervision.reconcile import registry_of

    with registry_of(runtime)() as connection:
        if newer:
            found = next(iter(verifications.newest(connection, table, limit=1)), None)
        else:
            found = verifications.of_run(connection, run or "")
        checks = verifications.checks_of(connection, found["run"]) if found is not None else []
    if found is None or (newer and found["run"] == run):
        return None
    document = recorded(found, checks)
    for level, text in lines(document):
        getattr(log, level)(text)
    return document


def by_policy(document: RunDocument) -> bool:
    """Whether a run has failures that `on_fail: quarantine` is about."""
    from lakeward.quality.verdicts import quarantine_policy
    from lakeward.quality.verdicts.verdict import Verdict

    return quarantine_policy.decide(Verdict(document["verdict"]), document["checks"]) is not None


def carry_out(runtime: Runtime, table: str) -> None:
    """What the policy says of the table's newest run, in a process of its own: it needs Spark where rows go.

    Raises:
        AirflowFailException: it could not be done; the table is held, and the next run goes on.
    """
    from lakeward.airflow import command
    from lakeward.airflow.connections import home
    from lakeward.platform.runtime import Project

    words = ["quality", "quarantine", table, "--by-policy"]
    code, over = command.run(words, runtime, home(), Project.locate(), "airflow", within_s=POLICY_WITHIN_S)
    if over or code not in (0, HELD):
        why = f"was ended after {POLICY_WITHIN_S / 60:.0f} min" if over else f"ended with {code}; its reason is above"
        raise AirflowFailException(f"{table} is held, and what its policy says is not done: the command {why}")
