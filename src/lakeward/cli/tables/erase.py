"""`lakeward tables erase`: deletes rows permanently, from every file, snapshot, quarantine table and stored sample."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import DryRun, Kill, Patience, Yes, operate, runner_of
from lakeward.cli.tables.group import Comment, Table, app


@app.command()
def erase(
    table: Table,
    where: Annotated[str, typer.Option(metavar="CONDITION", help="Condition on the table's columns: customer_id = 42")],
    comment: Comment = "",
    drop_refs: Annotated[
        bool, typer.Option("--drop-refs", help="Drop tags and branches that contain the rows.")
    ] = False,
    unreadable: Annotated[
        Literal["erase", "keep"] | None,
        typer.Option(help="What to do with quarantined rows whose bytes are not text and so cannot be matched."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    kill: Kill = False,
    timeout: Patience = None,
) -> None:
    """Erase rows from every file of a table, from its streams' quarantine and from stored samples. Shows the plan, then
    asks.

    Every stream that writes the table is stopped meanwhile. All earlier snapshots of the table are removed. After a
    kill, run the same command again: it resumes. Neither the condition nor a value of a row is recorded.
    """
    from lakeward.operations.erase.erase import Erase
    from lakeward.operations.erase.plan import Scope
    from lakeward.operations.request import Request

    runner = runner_of(timeout)
    scope = Scope(table, where, drop_refs, None if unreadable is None else unreadable == "erase")
    operation = Erase(runner, Request(Erase.name, table, comment, kill=kill), scope)
    state().output.show(operate(runner, operation, dry_run=dry_run, yes=yes).document)
