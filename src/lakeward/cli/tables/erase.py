"""`lakeward tables erase`: deletes rows permanently, from every file, snapshot, quarantine table and stored sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import DryRun, Kill, Patience, Yes, operate, runner_of
from lakeward.cli.tables.group import Comment, Table, app
from lakeward.platform.errors import SpecError


@app.command()
def erase(
    table: Table,
    where: Annotated[
        str,
        typer.Option(
            metavar="CONDITION|@FILE",
            help="Condition on the table's columns: customer_id = 42; or the file that has it.",
        ),
    ],
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
    kill, run the same command again: it resumes. Neither the condition nor a value of a row is recorded. With @FILE no
    value is in the shell's history or in the list of processes either.
    """
    from lakeward.operations.erase.erase import Erase
    from lakeward.operations.erase.plan import Scope
    from lakeward.operations.request import Request

    runner = runner_of(timeout)
    scope = Scope(table, _condition(where), drop_refs, None if unreadable is None else unreadable == "erase")
    operation = Erase(runner, Request(Erase.name, table, comment, kill=kill), scope)
    state().output.show(operate(runner, operation, dry_run=dry_run, yes=yes).document)


def _condition(given: str) -> str:
    """The condition: the argument itself, or the text of the file that it names with `@`.

    Raises:
        SpecError: the file cannot be read, or has no condition.
    """
    if not given.startswith("@"):
        return given
    file = Path(given[1:])
    try:
        text = file.read_text(encoding="utf-8").strip()
        why = "" if text else "it is empty"
    except OSError as error:
        text, why = "", error.strerror or str(error)
    except UnicodeDecodeError:
        text, why = "", "it is not UTF-8 text"
    if why:
        raise SpecError(
            "The file with the condition cannot be used",
            why=f"{file}: {why}",
            next="write one condition on the table's columns into it, e.g. customer_id IN (42, 43)",
            code="LW-1299",
        )
    return text
