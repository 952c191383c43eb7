"""`quality waive|unwaive|release`: what a person decides about a check that fails."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import suite_of
from lakeward.platform.errors import Refused
from lakeward.platform.text import minute

Table = Annotated[str, typer.Argument(help="The table: namespace.table.")]
Check = Annotated[
    str,
    typer.Argument(help="The check: its id, the beginning of it, or its name, e.g. column_values_to_not_be_null(a)."),
]
Why = Annotated[str, typer.Option("--comment", "--reason", help="Why; kept with the change, and shown.")]


@app.command()
def waive(
    table: Table,
    check: Check,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="RFC 3339, e.g. 2026-11-21T06:00:00Z")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="e.g. 2h")] = None,
    comment: Why = "",
) -> None:
    """Excuse a check's failures until a time: they are shown everywhere and do not hold `verified`."""
    from lakeward.cli.deploy import author
    from lakeward.cli.times import until_when
    from lakeward.quality.verdicts.waive import waive as act
    from lakeward.quality.verdicts.waivers import choose

    moment = until_when(until, for_)
    chosen, name = choose(suite_of(table), check)
    with state().registry() as connection:
        made = act(connection, table, chosen, name, moment, author=author(), reason=comment)
    detail = f"waived until {minute(made.until)} by {made.author}: {made.reason}"
    data = {"operation": "waive", "table": table, "check": chosen, "name": name, "result": "done", "detail": detail}
    next_ = f"lakeward quality run {table}   publishes what only this check holds"
    lines = [f"{table}: {name} is {detail}", f"  next      {next_}"]
    state().output.either({**data, "until": made.until, "next": next_}, "\n".join(lines))


@app.command()
def unwaive(table: Table, check: Check, comment: Why = "") -> None:
    """End a waiver before its time. What was published under it stays published."""
    from lakeward.cli.deploy import author
    from lakeward.quality.verdicts.waive import unwaive as act
    from lakeward.quality.verdicts.waivers import choose

    chosen, name = choose(suite_of(table), check)
    with state().registry() as connection:
        ended = act(connection, table, chosen, author=author(), comment=comment)
    detail = f"the waiver by {ended.author} until {minute(ended.until)} has ended"
    data = {"operation": "unwaive", "table": table, "check": chosen, "name": name, "result": "done", "detail": detail}
    state().output.either(data, f"{table}: {name}: {detail}")


@app.command()
def release(
    table: Table,
    comment: Why = "",
    yes: Annotated[bool, typer.Option("--yes", help="Approve what is shown without being asked.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be published; change nothing.")] = False,
) -> None:
    """Publish the rows that a check holds, with a mark: `verified` moves to the snapshot the newest run looked at."""
    from lakeward.cli.deploy import author
    from lakeward.connectors.spark.connect import session
    from lakeward.quality.publishing.release import held
    from lakeward.quality.publishing.release import release as act
    from lakeward.quality.ranges import metadata
    from lakeward.quality.runs import formats

    here = state()
    with here.registry() as connection:
        found = held(connection, table)
    snapshot = found.run["to_snapshot"]
    noun = "snapshot" if found.run["to_commit"] is None else "version"
    shown = f"{noun} {snapshot} of {table} would be published although these fail: {'; '.join(found.failed)}"
    if dry_run:
        data = {"operation": "release", "table": table, "result": "skipped", "detail": shown}
        here.output.either(data, shown)
        return
    here.output.note(shown)
    if not yes and not (sys.stdin.isatty() and here.output.messages.input("Type the table to do it: ") == table):
        raise Refused(
            f"Releasing {table} was not approved",
            why="rows that fail a check would reach the readers of `verified`",
            next=f"lakeward quality release {table} --yes --comment WHY",
        )
    with session(here.runtime) as spark:
        of = formats.of(table, metadata.catalog(here.runtime), here.runtime.lake)
        data = act(here.registry, of, lambda: spark, author=author(), comment=comment)
    here.output.either(data, f"{table}: {data['detail']}")
