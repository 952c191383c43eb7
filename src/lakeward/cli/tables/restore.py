"""`lakeward tables restore`: the one sanctioned rollback of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import DryRun, Kill, Timeout, Yes, operate, runner_of
from lakeward.cli.tables.group import Comment, Table, app


@app.command()
def restore(
    table: Table,
    to: Annotated[int, typer.Option(metavar="SNAPSHOT", help="an earlier snapshot of main")],
    comment: Comment = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    kill: Kill = False,
    timeout: Timeout = None,
) -> None:
    """Take a table back to an earlier snapshot, with its streams' positions and `verified`. Shows what that is, asks.

    Stops every stream that writes the table; they go on with the records that were taken out, each once, under new
    checkpoints. Run again after a kill, it goes on. Works with Airflow down.
    """
    from lakeward.operations.request import Request
    from lakeward.operations.restore.restore import Restore

    runner = runner_of(timeout)
    request = Request(Restore.name, table, comment, kill=kill)
    state().output.show(operate(runner, Restore(runner, request, to), dry_run=dry_run, yes=yes).document)
