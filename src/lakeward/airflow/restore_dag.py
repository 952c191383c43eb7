"""`tables_restore`: restores a table to an earlier snapshot, after a person approved the exact plan."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import RESTORE
from lakeward.airflow.tasks.approval import ApprovalTask, author, report_errors
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.operations.operation import Operation
    from lakeward.operations.runner import Runner


DOC = """
### What it does
Restores one table to an earlier snapshot, together with the positions of the streams that write it and the branch
`verified`, in **one commit**. The streams are stopped at a batch boundary before and started afterwards; the records of
the removed rows land again, each once, under new checkpoints.

It first shows which rows are removed, which offsets land again and which commits are lost, and then **waits for
approval** (*Required Actions*, 30 min), without a worker. It executes exactly the approved plan.

### Parameters
* **Table**: `namespace.table`.
* **Snapshot**: an earlier one of main; `lakeward sql "FROM namespace.table.history"` lists them. Of a
  Delta table: a version.
* **Comment**: why. It is stored with the change.
* **Dry run**: shows the plan, changes nothing.

### When it is red
It was refused, with the reason and the next step in the log, or it was killed before the end. Then trigger it again
with the same parameters: it continues. Until then a stream that would write at the wrong position is refused. `lakeward
tables restore` does the same without Airflow.
"""


class RestoreTable(ApprovalTask):
    """The task: shows the plan, waits for approval, restores."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="Restore a table", **kwargs)

    def execute(self, context: Context) -> None:
        """Show the plan and wait for approval. The restore of a killed run continues without a new approval."""
        return report_errors(lambda: self.do_or_ask(context))

    def operation(self, context: Context) -> tuple[Runner, Operation[Any]]:
        """The restore that the trigger form requests.

        Raises:
            SpecError: the form names no table or no snapshot.
        """
        from lakeward.airflow.connections import runtime
        from lakeward.airflow.project import settings
        from lakeward.operations.request import Request
        from lakeward.operations.restore.restore import Restore
        from lakeward.operations.runner import Runner
        from lakeward.supervision.reconcile import registry_of

        quiet_libraries()
        params = context["params"]
        table, to = str(params.get("table") or "").strip(), str(params.get("to") or "").strip()
        if not table or not to.isdigit():
            raise SpecError(
                "The restore names no table or no snapshot",
                why=f"The table is {table or 'empty'}, and the snapshot is {to or 'empty'}. A snapshot is a number",
                next='lakeward sql "FROM <namespace>.<table>.history"',
                code="LW-6204",
            )
        addresses = runtime()
        runner = Runner(
            registry_of(addresses),
            addresses,
            author=author(context),
            holder=f"run {context['dag_run'].run_id} of {RESTORE}",
            settings=settings,
        )
        comment, kill = str(params.get("comment") or ""), bool(params.get("kill"))
        return runner, Restore(runner, Request(Restore.name, table, comment, kill=kill), int(to))


def build_restore() -> DAG:
    """The Dag that restores one table."""
    with DAG(
        RESTORE,
        dag_display_name="tables: restore",
        description="Restores one table to an earlier snapshot with its streams' positions; waits for approval.",
        schedule=None,
        dagrun_timeout=timedelta(minutes=75),
        **options(owner="lakeward", tags=["tables"], doc=DOC, max_active_runs=4),
    ) as dag:
        RestoreTable(
            task_id="restore",
            doc_md="Show the plan, wait for approval, restore.",
        )
    dag.params = ParamsDict(
        {
            "table": Param("", type="string", title="Table", description_md="`namespace.table`"),
            "to": Param(
                "", type="string", title="Snapshot",
                description_md="An earlier snapshot of main; of a Delta table, a version.",
            ),
            "comment": Param(
                "", type=["null", "string"], title="Comment", maxLength=500, description_md="Why. It is audited."
            ),
            "kill": Param(
                False, type="boolean", title="Kill drivers that do not stop",
                description_md="After the wait, end the process of a driver that did not stop its stream.",
            ),
            "dry_run": Param(False, type="boolean", title="Dry run", description_md="Show the plan, change nothing."),
        }
    )  # fmt: skip
    return dag
