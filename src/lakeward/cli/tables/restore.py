"""`lakeward tables restore`: the one sanctioned rollback of a table."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.operations import DryRun, Kill, Timeout, Yes, operator_of
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
    from lakeward.operations.request import Approval
    from lakeward.operations.restore import plan as planning
    from lakeward.operations.restore.restore import Ask, Restore

    site, output = operator_of(timeout), state().output
    ask = Ask(table, to, comment, kill=kill)
    if not Restore(site, ask).begun:
        plan = planning.plan(site, table, to)
        for line in (*plan.lines, f"This would {plan.text}."):
            output.note(line)
        if dry_run:
            output.show(_answer(table, "skipped", f"dry run: would {plan.text}", plan.data))
            return
        if not yes and sys.stdin.isatty() and not plan.there:
            ask = replace(ask, comment=comment or _asked("Why? (kept with the change) "))
            yes = _asked("Type the table's name to do it: ") == table
        if yes:
            ask = replace(ask, approval=Approval(site.author, plan.key))
    elif dry_run:
        output.show(_answer(table, "skipped", "dry run: would finish what an earlier restore began", {}))
        return
    done = Restore(site, ask).run()
    output.show(_answer(table, "done", done.detail, done.data))


def _answer(table: str, result: str, detail: str, data: Any) -> dict[str, Any]:
    return {"operation": "restore", "table": table, "result": result, "detail": detail, **data}


def _asked(question: str) -> str:
    return str(state().output.messages.input(question)).strip()
