"""`quality_check`: checks the snapshots since the last proof in one process and logs each table's verdict in a task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import failure, options, quiet_libraries
from lakeward.airflow.names import QUALITY

if TYPE_CHECKING:
    from lakeward.platform.runtime import Project, Runtime
    from lakeward.quality.results.records import RunDocument
    from lakeward.quality.runs.request import Scope

log = structlog.get_logger(__name__)

POLICY_WITHIN_S = 20 * 60.0
HELD = 3
"""Exit code of the command if the table stays held. The command has printed the reason."""

SCOPES = {
    "": "the scope of each check",
    "increment": "increment: what landed since the last proof",
    "window": "window: what landed in the last 24 hours",
    "table": "table: all of it",
}

DOC = """
### What it does
Runs the suites in `expectations/` on the snapshots since the last verified one. The task `check` requests the check
runs from the checker; if no checker is up, it runs them itself, which is slower. Then a task for each table logs its
verdict: the range, the checks decided from metadata alone, the rows read, the failures and since when, the snapshot
that readers of `verified` see, and the cost. When every critical check passes, the branch `verified` of the table moves
to exactly the checked snapshot, so its readers see verified rows only. If only checks with `on_fail: quarantine` hold a
table, and few of the new rows fail them, the task of the table moves those rows to the stream's quarantine and checks
the remaining rows; then `verified` moves, and a message names the moved rows. If the policy may not do that (too many
rows, a stream that reads the table as it grows, another check that holds), the log, the incident and `quality show`
give the reason, and a person decides. `streams_reconcile` starts this Dag when streams have landed unchecked rows, once
a minute at most (`checker.every` in `conf/lakeward.yaml`), and `tables_observe` starts it for rows of other writers.
Neither starts it while a run is queued or running; rows that land meanwhile are found by the next observation.

### When it is red
A table's task says **held** (a critical check failed) or **not checked** (a check could not be computed, which is
neither a pass nor a failure). `verified` stays at its snapshot; **the stream continues to land rows**. The log names
the check, the number of failing rows, an example, the first bad snapshot with its offsets, and the next command.
`check` itself is red only if nothing could be checked. **Clear** `check` to check again.

### Parameters
* **Table**: `namespace.table`, due or not, or a pattern: `nyc.*` takes every such table that is due. Empty: all due.
* **Scope**: the rows that are checked.
* **Dry run**: shows the due tables, why they are due, and about how many rows they have; checks nothing.
"""


def build() -> DAG:
    """The Dag that checks tables."""
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
                "",
                type="string",
                enum=list(SCOPES),
                values_display=SCOPES,
                title="Scope",
                description_md="The rows to check.",
            ),
            "dry_run": Param(
                False, type="boolean", title="Dry run", description_md="Show the due tables, check nothing."
            ),
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
            doc_md="The verdict of one table; `on_fail: quarantine` is carried out here.",
        )
        def verdict(of: dict[str, str]) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.airflow.notify import IncidentNotifier
            from lakeward.supervision.reconcile import registry_of

            addresses = runtime()
            try:
                log_verdict(addresses, of["table"], of["run"])
            finally:  # without waiting for the next reconcile pass
                IncidentNotifier(registry_of(addresses)).notify({})

        verdict.expand(of=check())  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def check_tables(runtime: Runtime, project: Project, params: dict[str, Any]) -> list[dict[str, str]]:
    """Check the requested tables, or all due ones.

    Returns:
        Table and run of each result. No rows, because Airflow's database stores the returned value.

    Raises:
        AirflowFailException: nothing could be checked: a suite is invalid or missing, or the registry is down.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.quality.runs.ask import check

    quiet_libraries()
    pattern, scope = str(params.get("table") or "").strip(), _scope(params)
    url = runtime.registry_url_file.read_text().strip()
    try:
        tables: Sequence[str] | None = [pattern] if pattern else None
        if params.get("dry_run") or any(sign in pattern for sign in "*?["):
            from lakeward.quality.runs.dry_run import due_of  # with pyarrow: seconds of CPU that most runs do not need

            tables = []
            for table in due_of(runtime, url, project, pattern or "*"):
                log.info("table due" if table.due else "table not due", table=table.table, why=table.why)
                tables += [table.table] if table.due else []
        if params.get("dry_run"):
            return []
        results = check(runtime, url, project, tables, scope) if tables is None or tables else []
    except LakewardError as error:
        raise failure(error) from None
    if not results:
        log.info("nothing is due", why="every head is verified, or held and unchanged")
    return [{"table": result["table"], "run": result["run"]} for result in results]


def _scope(params: dict[str, Any]) -> Scope | None:
    return params.get("scope") or None


def log_verdict(runtime: Runtime, table: str, run: str) -> None:
    """Log the check run of one table; if it holds and the suite has a policy for that, carry out the policy.

    Raises:
        AirflowFailException: the verdict is `hold` or `error`; the texts differ.
    """
    document = log_run(runtime, table, run)
    if document is not None and by_policy(document):
        carry_out(runtime, table)
        document = log_run(runtime, table, document["run"], newer=True) or document
    if document is None:
        log.info("no new rows, the earlier verdict is still valid")
        return
    if document["verdict"] == "hold":
        raise AirflowFailException(f"{table} is held: a critical check failed; readers of verified are safe")
    if document["verdict"] == "error":
        raise AirflowFailException(f"{table} was not checked: this is neither a pass nor a failure of its rows")


def log_run(runtime: Runtime, table: str, run: str | None, *, newer: bool = False) -> RunDocument | None:
    """Log a recorded run and return its document; None if it is not recorded.

    Args:
        newer: take the table's newest run, if it is another one.
    """
    from lakeward.quality.results.records import recorded
    from lakeward.quality.results.text import lines
    from lakeward.registry import verifications
    from lakeward.supervision.reconcile import registry_of

    with registry_of(runtime)() as connection:
        if newer:
            row = next(iter(verifications.newest(connection, table, limit=1)), None)
        else:
            row = verifications.of_run(connection, run or "")
        checks = verifications.checks_of(connection, row["run"]) if row is not None else []
    if row is None or (newer and row["run"] == run):
        return None
    document = recorded(row, checks)
    for level, text in lines(document):
        getattr(log, level)(text)
    return document


def by_policy(document: RunDocument) -> bool:
    """Whether a run has failures of checks with `on_fail: quarantine`."""
    from lakeward.quality.verdicts import quarantine_policy
    from lakeward.quality.verdicts.verdict import Verdict

    return quarantine_policy.decide(Verdict(document["verdict"]), document["checks"]) is not None


def carry_out(runtime: Runtime, table: str) -> None:
    """Carry out the policy for the table's newest run, in a process of its own, because moving rows needs Spark.

    Raises:
        AirflowFailException: the policy was not carried out; the table is held, and the next run continues.
    """
    from lakeward.airflow.connections import home
    from lakeward.airflow.tasks import command
    from lakeward.platform.runtime import Project

    words = ["quality", "quarantine", table, "--by-policy"]
    code, over = command.run(words, runtime, home(), Project.locate(), "airflow", within_s=POLICY_WITHIN_S)
    if over or code not in (0, HELD):
        why = f"was stopped after {POLICY_WITHIN_S / 60:.0f} min" if over else f"exited with {code}; its error is above"
        raise AirflowFailException(f"{table} is held, and its policy was not carried out: the command {why}")
