"""`tables_orphans`: moves orphan files of each table to its trash folder, once a week."""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, DeltaTriggerTimetable, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow.common import failure, options, quiet_libraries
from lakeward.airflow.maintain_dag import maintain_one
from lakeward.airflow.names import ORPHANS

if TYPE_CHECKING:
    from lakeward.platform.runtime import Project, Runtime

log = structlog.get_logger(__name__)

EVERY = timedelta(days=7)
AT_ONCE = 2  # tables at a time: listing loads the object store

DOC = """
### What it does
Lists the location of every Iceberg table and finds **orphan files**: files older than a week that no snapshot, branch,
tag or staged batch names. A failed commit leaves such files. They are moved to a trash folder below the table's
location (`.lakeward_orphans`) and deleted a week later. The first run over a table, and the first after its thresholds
were changed, only shows them.

### Parameters
* **Table**: a table, or a glob over `namespace.table`; `*` means all.
* **Dry run**: shows the orphan files and moves nothing; also for tables that are not due yet.

### When it is red
The log of each table's task has the result. *Refused* means that nothing was touched: too many files look like orphans
(`orphans.max_share`, `orphans.max_files`), another table or a checkpoint lies below the location, the table names its
files in another spelling of the location, or a file it needs is missing. *Failed* with files **put back** means that
the table needed them, and they are in their original location again. Find the reason before the next run.

### What you may do
`lakeward tables maintain TABLE --actions orphans --dry-run` shows the same. Pause this Dag to keep every file.
"""


def build_orphans(every: timedelta | None = None) -> DAG:
    """The Dag that moves orphan files to trash folders; one task for each table."""
    with DAG(
        ORPHANS,
        dag_display_name="tables: orphans",
        description="Moves orphan files of each table to its trash folder.",
        schedule=DeltaTriggerTimetable(every or EVERY),
        dagrun_timeout=timedelta(hours=24),
        params={
            "table": Param("*", type="string", title="Table", description_md="`namespace.table`, or a glob: `nyc.*`"),
            "dry_run": Param(
                False, type="boolean", title="Dry run", description_md="Show the orphan files, move nothing."
            ),
        },
        **options(owner="lakeward", tags=["tables"], doc=DOC),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=10), doc_md="The tables that match.")
        def tables(params: dict[str, Any]) -> list[str]:
            from lakeward.airflow.connections import runtime
            from lakeward.platform.runtime import Project

            return matching(runtime(), Project.locate(), str(params.get("table") or "*").strip())

        @task(
            execution_timeout=timedelta(hours=2),
            max_active_tis_per_dag=AT_ONCE,
            map_index_template="{{ task.op_kwargs['table'] }}",
            doc_md="List the location, read the metadata, move files that no metadata names to the trash folder.",
        )
        def orphans(table: str, params: dict[str, Any], dag_run: Any = None) -> None:
            from lakeward.airflow.connections import runtime
            from lakeward.platform.runtime import Project

            author = str(getattr(dag_run, "triggering_user_name", None) or "Airflow")
            maintenance = {"actions": ["orphans"], "dry_run": params.get("dry_run")}
            maintain_one(runtime(), Project.locate(), table, maintenance, author=author)

        orphans.expand(table=tables())  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def matching(runtime: Runtime, project: Project, glob: str) -> list[str]:
    """The tables of the lake that match a glob.

    Raises:
        AirflowFailException: none matches, or the catalog does not answer.
    """
    from lakeward.platform.errors import LakewardError
    from lakeward.tables.context import MaintenanceContext

    quiet_libraries()
    try:
        known = MaintenanceContext.of(runtime, project).names()
    except LakewardError as error:
        raise failure(error) from None
    tables = [table for table in known if fnmatchcase(table, glob)]
    if not tables and (known or glob != "*"):
        log.error("no table matches", glob=glob, tables=known)
        raise AirflowFailException(f"No table matches {glob!r}; tables: {', '.join(known) or 'none yet'}")
    log.info("tables chosen", glob=glob, tables=tables)
    return tables
