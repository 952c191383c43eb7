"""`quality quarantine`: rows that fail a check go from their table into the stream's quarantine."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import suite_of
from lakeward.cli.quality.waivers import Table, Why
from lakeward.platform.errors import Refused
from lakeward.platform.text import count

if TYPE_CHECKING:
    from lakeward.spec.model.suite import Expectation


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
    from lakeward.cli.deploy import author
    from lakeward.engine import analysis
    from lakeward.operations.quarantine.remove import suited
    from lakeward.operations.quarantine.run import Act, act, failing_rows
    from lakeward.operations.quarantine.streams import landing
    from lakeward.quality.verdicts.waivers import choose, ids
    from lakeward.tables.guard import readers

    if by_policy:
        from lakeward.cli.quality.policy import carried_out

        if check or stream or yes or dry_run:
            raise typer.BadParameter("the policy says which rows go: give the table alone", param_hint="--by-policy")
        carried_out(table)
        return
    if check is None:
        raise typer.BadParameter("name the check whose failing rows go, or give --by-policy", param_hint="CHECK")
    if not comment and not dry_run:
        raise typer.BadParameter("say why, in a sentence: it is kept with the change", param_hint="--comment")
    suite = suite_of(table)
    chosen, name = choose(suite, check)
    expectation = dict(zip(ids(suite), suite.expectations, strict=True))[chosen]
    with state().registry() as connection:
        streams, _ = landing(connection, table, stream)
        grown = sorted({each.stream for each in readers.registered(connection).get(table, ())})
    for each in streams:
        suited(each.spec, grown)
    if not dry_run:
        _approved(table, name, expectation, yes=yes)
    runtime, by = state().runtime, Act(author(), author(), comment, {})
    failing = failing_rows(state().registry, runtime, table, expectation)
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with analysis.session([each.spec for each in streams], runtime, lake=True) as spark:
        done = [
            asdict(act(spark, each, runtime, failing, state().registry, by, readers=grown, dry_run=dry_run))
            for each in streams
        ]
    data = {"operation": "quarantine", "table": table, "check": chosen, "name": name, "dry_run": dry_run,
            "comment": comment, "streams": done}  # fmt: skip
    state().output.either(data, "\n".join(line for each in done for line in text_of(each)))


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


def _approved(table: str, name: str, expectation: Expectation, *, yes: bool) -> None:
    """A person says yes, or the suite did.

    Raises:
        Refused: nobody did.
    """
    if yes or expectation.on_fail == "quarantine":
        return
    output = state().output
    output.note(f"rows of {table} that fail {name} and are not proven would be taken out of it and kept in quarantine")
    if sys.stdin.isatty() and output.messages.input("Type the table to do it: ") == table:
        return
    raise Refused(
        f"Taking rows out of {table} was not approved",
        why=f"the suite says on_fail: {expectation.on_fail}; only on_fail: quarantine allows it without a person",
        next=f"lakeward quality quarantine {table} '{name}' --yes --comment WHY",
    )
