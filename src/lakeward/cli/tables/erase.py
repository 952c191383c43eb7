"""`lakeward tables erase`: rows that somebody has a duty to delete."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.operations import DryRun, Kill, Timeout, Yes, operator_of
from lakeward.cli.tables.group import Comment, Table, app


@app.command()
def erase(
    table: Table,
    where: Annotated[str, typer.Option(metavar="CONDITION", help="on the table's columns: customer_id = 42")],
    comment: Comment = "",
    drop_refs: Annotated[bool, typer.Option("--drop-refs", help="Tags and branches that hold the rows go.")] = False,
    unreadable: Annotated[
        Literal["erase", "keep"] | None,
        typer.Option(help="Quarantined rows whose bytes are no text: nobody can tell whether they are meant."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    kill: Kill = False,
    timeout: Timeout = None,
) -> None:
    """Erase rows from every file of a table, from its streams' quarantine and from stored samples. Shows, then asks.

    Stops every stream that writes the table for as long as it takes. All earlier snapshots of the table go. Run again
    after a kill, it goes on. Neither the condition nor a value of a row is recorded.
    """
    from lakeward.operations.erase import plan as planning
    from lakeward.operations.erase.erase import Ask, Erase
    from lakeward.operations.request import Approval

    site, output = operator_of(timeout), state().output
    scope = planning.Scope(table, where, drop_refs, None if unreadable is None else unreadable == "erase")
    ask = Ask(scope, comment, kill=kill)
    plan = planning.plan(site, scope)
    for line in (*plan.lines, f"This would {plan.text}, for good."):
        output.note(line)
    if dry_run:
        output.show(_answer(table, "skipped", f"dry run: would {plan.text}", plan.data))
        return
    if not yes and sys.stdin.isatty():
        ask = replace(ask, comment=comment or _asked("Why? (kept with the change; name no value) "))
        yes = _asked("Type the table's name to do it: ") == table
    if yes:
        ask = replace(ask, approval=Approval(site.author, plan.key))
    done = Erase(site, ask).run()
    output.show(_answer(table, "done", done.detail, done.data))


def _answer(table: str, result: str, detail: str, data: Any) -> dict[str, Any]:
    return {"operation": "erase", "table": table, "result": result, "detail": detail, **data}


def _asked(question: str) -> str:
    return str(state().output.messages.input(question)).strip()
