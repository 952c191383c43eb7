"""`quality quarantine`: moves rows that fail a check from their table to the stream's quarantine table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import operate, runner_of, spark_of
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import suite_of
from lakeward.cli.quality.waivers import Table, Why
from lakeward.platform.text import count, word


@app.command()
def quarantine(
    table: Table,
    check: Annotated[
        str | None, typer.Argument(help="Check id, prefix of the id, or name; not with --by-policy.")
    ] = None,
    comment: Why = "",
    stream: Annotated[str | None, typer.Option(help="Only this stream, if several land in the table.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve the shown plan without a prompt.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the rows that would move; change nothing.")] = False,
    by_policy: Annotated[
        bool, typer.Option("--by-policy", help="Apply the suite's on_fail: quarantine to the newest run.")
    ] = False,
) -> None:
    """Move unverified rows that fail a check to the quarantine table, each exactly once.

    Runs beside the stream, in a Spark application of its own. After a kill, run the same command again: it resumes.
    `quality replay` lands the rows when they are good. A check with `on_fail: quarantine` needs no approval.
    """
    from lakeward.operations.quarantine.operation import Quarantine
    from lakeward.operations.request import Request

    if by_policy:
        from lakeward.cli.quality.policy import carried_out

        if check or stream or yes or dry_run:
            raise typer.BadParameter(
                "only TABLE is allowed with it: the policy selects the rows", param_hint="--by-policy"
            )
        carried_out(table)
        return
    if check is None:
        raise typer.BadParameter("name the check whose failing rows move, or use --by-policy", param_hint="CHECK")
    runner, request = runner_of(), Request(Quarantine.name, table, comment)
    operation = Quarantine(runner, request, suite_of(table), check, spark_of(runner), stream=stream)
    done = operate(runner, operation, dry_run=dry_run, yes=yes)
    state().output.either(done.document, "\n".join(line for stream in done.data["streams"] for line in text_of(stream)))


def text_of(report: dict[str, Any]) -> list[str]:
    """For people: rows moved, rows that cannot be replayed, rows that remain with the reason, next command."""
    table, would = report["table"], "would go" if report["dry_run"] else "went"
    rows = f"{report['moved']:,} of {count(report['found'], 'row')} of {table}"
    lines = [f"{report['stream']}: {rows} that fail {report['check']} {would} to {report['quarantine']}"]
    lost = report["moved"] - report["records"]
    if lost:
        lines.append(f"  rows only {lost:,}: cannot be replayed, their records expired at the source")
    lines += [f"  left      {entry['count']:,}: {entry['why']}" for entry in report["left"]]
    if report["moved"] and not report["dry_run"]:
        lines.append(
            f"  next      lakeward quality run {word(table)}   then, after the fix: "
            f'lakeward quality replay {word(table)} --comment "corrected"'
        )
    return lines
