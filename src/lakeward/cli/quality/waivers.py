"""`quality waive`, `unwaive`, `release`: a person's decision about a failing check."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import operate, runner_of
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import suite_of
from lakeward.cli.table_names import plain
from lakeward.platform.text import word

Table = Annotated[str, typer.Argument(callback=plain, help="The table: namespace.table.")]
Check = Annotated[
    str,
    typer.Argument(help="The check: id, prefix of the id, or name, e.g. column_values_to_not_be_null(a)."),
]
Why = Annotated[str, typer.Option("--comment", "--reason", help="Reason; recorded with the change and shown.")]


@app.command()
def waive(
    table: Table,
    check: Check,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="RFC 3339, e.g. 2026-11-21T06:00:00Z")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="e.g. 2h")] = None,
    comment: Why = "",
) -> None:
    """Waive a check until a time: its failures are shown, and do not hold `verified`."""
    from lakeward.cli.times import until_when
    from lakeward.operations.request import Request
    from lakeward.operations.waive import Waive
    from lakeward.quality.verdicts.waivers import choose

    moment = until_when(until, for_)
    chosen, name = choose(suite_of(table), check)
    runner = runner_of()
    outcome = operate(runner, Waive(runner, Request(Waive.name, table, comment), chosen, name, moment))
    next_ = f"lakeward quality run {word(table)}   publishes the rows, if only this check held them"
    lines = [f"{table}: {name} is {outcome.detail}", f"  next      {next_}"]
    state().output.either({**outcome.document, "next": next_}, "\n".join(lines))


@app.command()
def unwaive(table: Table, check: Check, comment: Why = "") -> None:
    """End a waiver before its time. Rows published under it stay published."""
    from lakeward.operations.request import Request
    from lakeward.operations.waive import Unwaive
    from lakeward.quality.verdicts.waivers import choose

    chosen, name = choose(suite_of(table), check)
    runner = runner_of()
    outcome = operate(runner, Unwaive(runner, Request(Unwaive.name, table, comment), chosen, name))
    state().output.either(outcome.document, f"{table}: {name}: {outcome.detail}")


@app.command()
def release(
    table: Table,
    comment: Why = "",
    yes: Annotated[bool, typer.Option("--yes", help="Approve the shown plan without a prompt.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be published; change nothing.")] = False,
) -> None:
    """Publish rows that a check holds: `verified` moves to the snapshot of the newest run, with verdict `warn`."""
    from lakeward.connectors.spark.connect import session
    from lakeward.operations.release import Release
    from lakeward.operations.request import Request

    runner = runner_of()
    operation = Release(runner, Request(Release.name, table, comment), lambda: session(runner.runtime))
    outcome = operate(runner, operation, dry_run=dry_run, yes=yes)
    state().output.either(outcome.document, f"{table}: {outcome.detail}")
