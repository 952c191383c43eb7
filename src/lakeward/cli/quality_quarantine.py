"""`quality quarantine`: rows that fail a check go from their table into the stream's quarantine."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.quality_history import app as app  # the same for all: each file adds its commands
from lakeward.cli.quality_replay import landing
from lakeward.cli.quality_suites import suite_of
from lakeward.cli.quality_waivers import Check, Table, Why
from lakeward.errors import Refused, SpecError
from lakeward.streams.words import count

if TYPE_CHECKING:
    from lakeward.driver.aside import Failing
    from lakeward.spec.suite import Expectation


@app.command()
def quarantine(
    table: Table,
    check: Check,
    comment: Why = "",
    stream: Annotated[str | None, typer.Option(help="Only this stream, where several land in the table.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve what is shown without being asked.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")] = False,
) -> None:
    """Move the rows that fail a check, of those not proven yet, into quarantine, each exactly once.

    Beside the running stream; starts a Spark of its own. Killed anywhere, the same command goes on. `quality replay`
    lands them when they are good. A check with `on_fail: quarantine` needs no approval.
    """
    from lakeward.cli.deploy import author
    from lakeward.control import analysis
    from lakeward.driver.aside import put_aside, suited
    from lakeward.quality.waivers import choose, ids
    from lakeward.registry import changes, events
    from lakeward.tables.guard import readers

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
    failing = _failing(table, name, expectation)
    done: list[dict[str, Any]] = []
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with analysis.session([each.spec for each in streams], state().runtime, lake=True) as spark:
        for each in streams:
            found = put_aside(spark, each, state().runtime, failing, readers=grown, dry_run=dry_run)
            done.append(asdict(found))
            if found.seq is None:
                continue
            told = {key: done[-1][key] for key in ("check", "moved", "records", "seq", "quarantine")}
            who = author()
            text = f"{count(found.moved, 'row')} that fail {name} went to {found.quarantine} by {who}: {comment}"
            with state().registry() as connection:
                events.record(connection, "table", table, "quarantine", text, stream=each.stream, **told)
                changes.record(
                    connection, "table", table, "quarantine", author=who, comment=comment, stream=each.stream, **told
                )
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


def _failing(table: str, name: str, expectation: Expectation) -> Failing:
    """Which rows: those that fail, of the range no run has proven.

    Raises:
        SpecError: all of it is proven.
    """
    from lakeward.driver.aside import Failing
    from lakeward.quality import metadata
    from lakeward.quality.failing import condition
    from lakeward.quality.frames import rows
    from lakeward.quality.lineage import Mark
    from lakeward.quality.range import decide, reading
    from lakeward.registry import verifications

    with state().registry() as connection:
        proofs = verifications.proofs(connection, table)
    history = metadata.history(metadata.catalog(state().runtime), table)
    found = decide(history, [Mark(each["to_snapshot"], each["to_sequence"]) for each in proofs])
    scope = "table" if expectation.scope == "table" else "increment"
    read = reading(found, history, scope, datetime.now(UTC))
    if read is None:
        raise SpecError(f"All of {table} is proven", why=found.why, next=f"lakeward quality show {table}")
    asks = ", ".join(f"{key}={value!r}" for key, value in expectation.kwargs.items() if key != "column")
    return Failing(
        name, f"{name}({asks})" if asks else name,
        lambda spark: rows(spark, table, read),  # type: ignore[arg-type]  # either kind of session reads
        lambda frame: condition(frame, expectation),
    )  # fmt: skip
