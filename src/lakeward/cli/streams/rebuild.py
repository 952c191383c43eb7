"""`streams rebuild`: a stream's table made anew from its source beside the running stream, and swapped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.group import Stream, app
from lakeward.cli.streams.operations import Comment, DryRun, Kill, Timeout

if TYPE_CHECKING:
    from lakeward.operations.rebuild.plan import RebuildPlan
    from lakeward.operations.rebuild.rebuild import Rebuilt, Work


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
    from lakeward.cli.streams.operations import operator_of
    from lakeward.operations.rebuild import plan as planning
    from lakeward.operations.rebuild.plan import Ask
    from lakeward.operations.rebuild.rebuild import Rebuild

    if not comment.strip() and not dry_run:
        raise typer.BadParameter("say why, in a sentence: it is kept with the change", param_hint="--comment")
    ask, site, output = Ask(stream, from_, into, accept_lost, comment), operator_of(timeout), state().output
    if dry_run:
        plan = planning.plan(site, ask)
        data = {"operation": "rebuild", "stream": stream, "result": "skipped", "detail": f"dry run: would {plan.text}"}
        lost = [f"not in the new table: {plan.lost.words}", *plan.lost.lines] if plan.lost.number else []
        output.either(data | plan.data, "\n  ".join([data["detail"], *lost, *plan.notes]))
        return
    done = Rebuild(site, ask, _spark, kill).run()
    output.either(document(done), "\n  ".join([done.detail, *done.plan.notes]))


def document(done: Rebuilt) -> dict[str, Any]:
    """The JSON of an operation, with what the rebuild did."""
    return {
        "operation": "rebuild",
        "stream": done.plan.stream,
        "result": "done",
        "detail": done.detail,
        **done.data,
    }


@contextmanager
def _spark(plan: RebuildPlan) -> Iterator[Work]:
    """A Spark of its own on this machine."""
    from lakeward.engine import analysis
    from lakeward.engine.assignment import Wanted
    from lakeward.operations.rebuild.fill import Rebuilding

    runtime, output = state().runtime, state().output
    wanted = Wanted(plan.stream, plan.target.generation, plan.target.spec, plan.target.checkpoint)
    with analysis.session([wanted.spec], runtime, lake=True) as spark:
        yield Rebuilding(
            spark, wanted, runtime, plan.made, plan.fill, plan.start,
            tell=lambda report: output.note(f"batch {report.batches}: {report.landed:,} rows landed"),
        )  # fmt: skip
