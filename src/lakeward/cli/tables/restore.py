"""`lakeward tables restore`: rolls a table back to a snapshot or version, together with its streams and `verified`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import DryRun, Kill, Patience, Yes, operate, runner_of
from lakeward.cli.tables.group import Comment, Table, app


@app.command()
def restore(
    table: Table,
    to: Annotated[
        int, typer.Option(metavar="SNAPSHOT", help="An earlier snapshot of main; of a Delta table, a version.")
    ],
    comment: Comment = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    kill: Kill = False,
    timeout: Patience = None,
) -> None:
    """Roll a table back to an earlier snapshot, with its streams' positions and `verified`. Shows the plan, then asks.

    Every stream that writes the table is stopped, and resumes under a new checkpoint with the removed records, each
    once. After a kill, run the same command again: it resumes. Works without Airflow.
    """
    from lakeward.operations.request import Request
    from lakeward.operations.restore.restore import Restore

    runner = runner_of(timeout)
    request = Request(Restore.name, table, comment, kill=kill)
    state().output.show(operate(runner, Restore(runner, request, to), dry_run=dry_run, yes=yes).document)
