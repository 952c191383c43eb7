"""`tables_restore`: restores a table to an earlier snapshot, after a person approved the exact plan."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from lakeward.airflow.asking import ApprovalTask, author, report_errors
from lakeward.airflow.common import options, quiet_libraries
from lakeward.airflow.names import RESTORE
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.operations.operation import Operation
    from lakeward.operations.runner import Runner


DOC = """
### What it does
Takes one table back to an earlier snapshot, together with the positions of the streams that write it and the branch
`verified`, in **one commit**. The streams are stopped at a batch boundary before and run again after; the records that
were taken out land again, each once, under new checkpoints.

It first shows which rows go, which offsets land again and which commits nobody does again, and then **waits for
approval** (*Required Actions*, 30 min), without a worker. What was approved is what is done.

### Parameters
* **Table**: `namespace.table`.
* **Snapshot**: an earlier one of main; `lakeward sql "FROM lake.namespace.table.history"` lists them.
* **Comment**: why. It is kept with the change.
* **Dry run**: shows it, changes nothing.

### When it is red
It was refused, with the reason and what to do, or it was killed half way: trigger it again with the same parameters, it
goes on. Until then a stream that would land in the wrong place is turned away. `lakeward tables restore` does the same
without Airflow.
"""


class RestoreTable(ApprovalTask):
    """Shows, asks, does."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="Restore a table", **kwargs)

    def execute(self, context: Context) -> None:
        """Show it and ask; what an earlier run began is finished without asking again."""
        return report_errors(lambda: self.do_or_ask(context))

    def operation(self, context: Context) -> tuple[Runner, Operation[Any]]:
        """What the trigger form asks for.

        Raises:
            SpecError: it names no table or no snapshot.
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
                "Name a table and a snapshot",
                why=f"table is {table or 'empty'}, snapshot is {to or 'empty'}: a snapshot is a number",
                next='lakeward sql "FROM lake.<namespace>.<table>.history"',
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
    """The Dag that takes one table back."""
    with DAG(
        RESTORE,
        dag_display_name="tables: restore",
        description="Takes one table back to an earlier snapshot with its streams' positions; waits for approval.",
        schedule=None,
        dagrun_timeout=timedelta(minutes=75),
        **options(owner="lakeward", tags=["tables"], doc=DOC, max_active_runs=4),
    ) as dag:
        RestoreTable(task_id="restore", doc_md="Show what would go and land again, wait for a yes, do it.")
    dag.params = ParamsDict(
        {
            "table": Param("", type="string", title="Table", description_md="`namespace.table`"),
            "to": Param("", type="string", title="Snapshot", description_md="The id of an earlier snapshot of main."),
            "comment": Param(
                "", type=["null", "string"], title="Comment", maxLength=500, description_md="Why. Kept with the change."
            ),
            "kill": Param(
                False, type="boolean", title="Kill drivers that do not stop",
                description_md="After the wait, end the process of a driver that did not stop its stream.",
            ),
            "dry_run": Param(False, type="boolean", title="Dry run", description_md="Show it, change nothing."),
        }
    )  # fmt: skip
    return dag
