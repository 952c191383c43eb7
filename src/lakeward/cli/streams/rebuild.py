"""`streams rebuild`: fill a new table from the source beside the running stream, and swap it in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import Comment, DryRun, Kill, Patience, operate, runner_of
from lakeward.cli.streams.group import Stream, app
from lakeward.cli.table_names import plain

if TYPE_CHECKING:
    from lakeward.operations.rebuild.fill import Fill
    from lakeward.operations.rebuild.plan import RebuildPlan


@app.command()
def rebuild(
    stream: Stream,
    from_: Annotated[
        str, typer.Option("--from", metavar="earliest|TIME|FILE", help="the first record that is read again")
    ] = "earliest",
    into: Annotated[
        str | None,
        typer.Option(callback=plain, metavar="TABLE", help="the table that is filled; default: <table>_rebuild_<n>"),
    ] = None,
    accept_lost: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="accept N rows that the new table lacks; the number --dry-run shows"),
    ] = 0,
    comment: Comment = "",
    dry_run: DryRun = False,
    kill: Kill = False,
    timeout: Patience = None,
) -> None:
    """Rebuild a stream's table from its source with the newest deployed generation, and swap it in at a batch boundary.

    The stream keeps running and is stopped only for the last records. Repeated after a kill, the command continues.
    The old table stays as <table>_before_<n>. Starts its own Spark; also works while Airflow is down.
    """
    from lakeward.operations.rebuild.plan import Options
    from lakeward.operations.rebuild.rebuild import Rebuild
    from lakeward.operations.request import Request

    runner, request = runner_of(timeout), Request(Rebuild.name, stream, comment, kill=kill)
    outcome = operate(runner, Rebuild(runner, request, Options(from_, into, accept_lost), _spark), dry_run=dry_run)
    state().output.either(outcome.document, "\n  ".join([outcome.detail, *outcome.lines]))


@contextmanager
def _spark(plan: RebuildPlan) -> Iterator[Fill]:
    """A Spark session on this machine."""
    from lakeward.engine import analysis
    from lakeward.engine.assignment import Assignment
    from lakeward.operations.rebuild.fill import Fill

    runtime, output = state().runtime, state().output
    assignment = Assignment(plan.stream, plan.target.generation, plan.target.spec, plan.target.checkpoint)
    with analysis.session([assignment.spec], runtime, lake=True) as spark:
        yield Fill(
            spark, assignment, runtime, plan.made, plan.fill, plan.start,
            report_progress=lambda report: output.note(f"batch {report.batches}: {report.landed:,} rows landed"),
        )  # fmt: skip
