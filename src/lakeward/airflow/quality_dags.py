"""`quality_check`: proves what landed since the last proof, in a process of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import assets
from lakeward.airflow.common import options
from lakeward.airflow.names import QUALITY

if TYPE_CHECKING:
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
Runs the suites in `expectations/` on the snapshots since the last verified one, all due tables in one process. When
every critical check passes, the branch `verified` of the table moves to exactly the snapshot that was checked, so
readers of `verified` only ever see proven rows. It starts by itself when rows landed that no check has seen.

### When it is red
A critical check failed (**hold**) or could not be computed (**error**). `verified` stays where it was; **the stream
goes on landing**. The log names the check, how many rows of how many, an example, the first bad snapshot with its
offsets, and what to do.

### Parameters
* **Table**: `namespace.table`; empty means every table with something unproven.
* **Scope**: how much is looked at.
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
                description_md="`namespace.table`; empty: every table with something unproven",
            ),
            "scope": Param(
                "", type="string", enum=list(SCOPES), values_display=SCOPES, title="Scope", description_md="How much."
            ),
        },
        **options(owner="lakeward", tags=["quality"], doc=DOC),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=45), doc_md="Check, record, move `verified`.")
        def check(params: dict[str, Any]) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.runtime import Project

            check_tables(runtime(spark=True), Project.locate(), params)

        check()  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def check_tables(runtime: Runtime, project: Project, params: dict[str, Any]) -> None:
    """Check and tell.

    Raises:
        AirflowFailException: a verdict is `hold` or `error`, or the run itself failed.
    """
    from lakeward.errors import LakewardError
    from lakeward.quality.ask import check

    table = str(params.get("table") or "").strip()
    url = runtime.registry_url_file.read_text().strip()
    try:
        results = check(runtime, url, project, [table] if table else None, params.get("scope") or None)
    except LakewardError as error:
        log.error(error.what, why=error.why, next=error.next)
        raise AirflowFailException(str(error)) from None
    if not results:
        log.info("Nothing is due: every head is proven, or held and unchanged")
    bad = [f"{each['table']}: {each['verdict']}" for each in results if each["verdict"] in ("hold", "error")]
    if bad:
        raise AirflowFailException("; ".join(bad))
