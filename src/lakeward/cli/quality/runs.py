"""`quality lint`, `quality run`, `quality show`: check suites, run checks, show the newest run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import known_columns
from lakeward.cli.table_names import plain
from lakeward.platform.text import word


@app.command()
def lint() -> None:
    """Check every suite against Great Expectations' models and its table's columns, without Spark.

    The columns are the table's where the catalog answers, otherwise those that its stream declares. Exit code 2 when
    there is a problem.
    """
    from lakeward.quality.suite.lint import lint as find

    problems = find(state().project, known_columns())
    errors = sum(problem.severity == "error" for problem in problems)
    lines = [problem.text() for problem in problems]
    lines.append("ok" if not errors else f"{errors} problem{'' if errors == 1 else 's'}")
    data = {"ok": not errors, "problems": [problem.document() for problem in problems]}
    state().output.either(data, "\n".join(lines))
    if errors:
        raise typer.Exit(2)


@app.command()
def run(
    table: Annotated[str, typer.Argument(callback=plain, help="The table: namespace.table.")],
    scope: Annotated[
        Literal["increment", "window", "table"] | None,
        typer.Option(help="The rows that each check reads, instead of its own scope."),
    ] = None,
    suite: Annotated[
        Path | None, typer.Option(help="A suite file for this run only; `verified` then does not move.")
    ] = None,
) -> None:
    """Check the rows since the last proof. Exit code 3 when a check holds the table or could not be computed.

    If only checks with `on_fail: quarantine` hold it and few rows fail, the rows move to quarantine and it is checked
    again.
    """
    from lakeward.cli.quality.text import event_text, run_text
    from lakeward.platform.runtime import registry_url
    from lakeward.quality import check

    here = state()
    results = check(
        here.runtime, registry_url(here.home), here.project, [table], scope,
        suite=suite, emit=lambda level, text, fields: here.output.note(event_text(text, fields)),
    )  # fmt: skip
    result = results[0]
    if suite is None and scope is None and result["verdict"] == "hold":
        from lakeward.cli.quality.policy import policy_of, show_outcome

        policy = policy_of(table)
        if policy.due(result):
            show_outcome(policy.carry_out(), policy)
            return
    here.output.either(result, run_text(result))
    if result["verdict"] in ("hold", "error"):
        raise typer.Exit(3)


@app.command()
def show(table: Annotated[str, typer.Argument(callback=plain, help="The table: namespace.table.")]) -> None:
    """Show the newest run of a table, and the snapshot that readers of `verified` see."""
    from lakeward.cli.quality.text import run_text
    from lakeward.connectors.delta import location
    from lakeward.platform.errors import LakewardError
    from lakeward.quality.delta.table import verified_proof
    from lakeward.quality.results.records import recorded
    from lakeward.registry import verifications, waivers

    with state().registry() as connection:
        newest = next(iter(verifications.newest(connection, table, limit=1)), None)
        checks = verifications.checks_of(connection, newest["run"]) if newest else []
        waived = waivers.in_force(connection, table)
        proofs = verifications.proofs(connection, table)
    if newest is None:
        raise LakewardError(f"{table} has no check run", next=f"lakeward quality run {word(table)}", code="LW-1212")
    proof = next(iter(proofs), None)
    data = recorded(newest, checks)
    if proof is not None and proof["to_commit"] is not None:
        # Readers of a Delta table get the version only from this answer: it must be valid for the current table.
        proof = verified_proof(table, location.folder_of(state().runtime.lake, table), proofs)
        data["format"], data["verified_snapshot"] = "delta", proof["to_snapshot"] if proof else None
    data["proven_at"] = proof["at"] if proof else None
    data["waivers"] = [
        {
            "check": waiver.check,
            "name": waiver.name,
            "author": waiver.author,
            "reason": waiver.reason,
            "until": waiver.until,
        }
        for waiver in waived
    ]
    state().output.either(data, run_text(data))
