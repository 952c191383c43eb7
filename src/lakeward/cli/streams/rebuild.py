"""`streams rebuild`: a stream's table made anew from its source beside the running stream, and swapped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import Comment, DryRun, Kill, Timeout, operate, runner_of
from lakeward.cli.streams.group import Stream, app

if TYPE_CHECKING:
    from lakeward.operations.rebuild.fill import Filling
    from lakeward.operations.rebuild.plan import RebuildPlan


@app.command()
def rebuild(
    stream: Stream,
    from_: Annotated[
        str, typer.Option("--from", metavar="earliest|TIME|FILE", help="the first record that is read again")
    ] = "earliest",
    into: Annotated[
        str | None, typer.Option(metavar="TABLE", help="the table that is filled; default: <table>_rebuild_<n>")
    ] = None,
    accept_lost: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="so many rows of the old table, as --dry-run counts them, stay in it"),
    ] = 0,
    comment: Comment = "",
    dry_run: DryRun = False,
    kill: Kill = False,
    timeout: Timeout = None,
) -> None:
    """Make a stream's table anew from its source by the newest deployed generation, and swap it in at a batch boundary.

    The stream goes on meanwhile and is stopped for the last records only. Run again after a kill, it goes on where it
    came to. The old table is kept as <table>_before_<n>. Starts a Spark of its own; works with Airflow down.
    """
    from lakeward.operations.rebuild.plan import Options
    from lakeward.operations.rebuild.rebuild import Rebuild
    from lakeward.operations.request import Request

    runner, request = runner_of(timeout), Request(Rebuild.name, stream, comment, kill=kill)
    outcome = operate(runner, Rebuild(runner, request, Options(from_, into, accept_lost), _spark), dry_run=dry_run)
    state().output.either(outcome.document, "\n  ".join([outcome.detail, *outcome.lines]))


@contextmanager
def _spark(plan: RebuildPlan) -> Iterator[Filling]:
    """A Spark of its own on this machine."""
    from lakeward.engine import analysis
    from lakeward.engine.assignment import Assignment
    from lakeward.operations.rebuild.fill import Filling

    runtime, output = state().runtime, state().output
    wanted = Assignment(plan.stream, plan.target.generation, plan.target.spec, plan.target.checkpoint)
    with analysis.session([wanted.spec], runtime, lake=True) as spark:
        yield Filling(
            spark, wanted, runtime, plan.made, plan.fill, plan.start,
            tell=lambda report: output.note(f"batch {report.batches}: {report.landed:,} rows landed"),
        )  # fmt: skip
