"""`quality quarantine`: rows that fail a check go from their table into the stream's quarantine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import operate, runner_of, spark_of
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import suite_of
from lakeward.cli.quality.waivers import Table, Why
from lakeward.platform.text import count


@app.command()
def quarantine(
    table: Table,
    check: Annotated[
        str | None, typer.Argument(help="Its id, the beginning of it, or its name; of `--by-policy` none.")
    ] = None,
    comment: Why = "",
    stream: Annotated[str | None, typer.Option(help="Only this stream, where several land in the table.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve what is shown without being asked.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")] = False,
    by_policy: Annotated[
        bool, typer.Option("--by-policy", help="What the suite's `on_fail: quarantine` says of the newest run.")
    ] = False,
) -> None:
    """Move the rows that fail a check, of those not proven yet, into quarantine, each exactly once.

    Beside the running stream; starts a Spark of its own. Killed anywhere, the same command goes on. `quality replay`
    lands them when they are good. A check with `on_fail: quarantine` needs no approval.
    """
    from lakeward.operations.quarantine.operation import Quarantine
    from lakeward.operations.request import Request

    if by_policy:
        from lakeward.cli.quality.policy import carried_out

        if check or stream or yes or dry_run:
            raise typer.BadParameter("the policy says which rows go: give the table alone", param_hint="--by-policy")
        carried_out(table)
        return
    if check is None:
        raise typer.BadParameter("name the check whose failing rows go, or give --by-policy", param_hint="CHECK")
    runner, request = runner_of(), Request(Quarantine.name, table, comment)
    operation = Quarantine(runner, request, suite_of(table), check, spark_of(runner), stream=stream)
    data = operate(runner, operation, dry_run=dry_run, yes=yes).document
    state().output.either(data, "\n".join(line for each in data["streams"] for line in text_of(each)))


def text_of(found: dict[str, Any]) -> list[str]:
    """For people: what went, what can be replayed, what stays and why, what comes next."""
    table, would = found["table"], "would go" if found["dry_run"] else "went"
    rows = f"{found['moved']:,} of {count(found['found'], 'row')} of {table}"
    lines = [f"{found['stream']}: {rows} that fail {found['check']} {would} to {found['quarantine']}"]
    lost = found["moved"] - found["records"]
    if lost:
        lines.append(f"  rows only {lost:,}: the source has not their records any more, they cannot be replayed")
    lines += [f"  left      {each['count']:,}: {each['why']}" for each in found["left"]]
    if found["moved"] and not found["dry_run"]:
        lines.append(
            f"  next      lakeward quality run {table}   then, when it is mended: lakeward quality replay {table}"
        )
    return lines
