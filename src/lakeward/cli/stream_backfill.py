"""`streams backfill`: a range of a stream's source, landed beside the stream."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.stream_state import app as app  # the same for all: each file adds its commands
from lakeward.cli.streams import Stream
from lakeward.errors import SpecError

if TYPE_CHECKING:
    from lakeward.driver.backfill import Report

_WHERE = "earliest|latest|TIME|FILE"


@app.command()
def backfill(
    stream: Stream,
    from_: Annotated[str, typer.Option("--from", metavar=_WHERE, help="the first record of the range")],
    to: Annotated[str, typer.Option("--to", metavar=_WHERE, help="the first record after it")] = "latest",
    into: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="another table, made when it is not there; default: the stream's"),
    ] = None,
    comment: Annotated[str, typer.Option(help="why; kept with the change")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be read, and touch nothing")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="it always waits: the work is done by this command")] = True,
) -> None:
    """Land a range of the source once, beside the running stream, by the generation it runs.

    Under a position of its own: run again after a kill, it goes on where it came to. Starts a Spark of its own. A TIME
    is when a record was written to the topic; a FILE holds JSON offsets: {"topic": {"0": 1200}}.
    """
    from lakeward.cli.deploy import author
    from lakeward.cli.stream_operations import operator_of
    from lakeward.connectors.kafka.position import parse
    from lakeward.control import analysis
    from lakeward.control.operations import target
    from lakeward.driver.backfill import backfill as act
    from lakeward.driver.backfillable import next_end, suited
    from lakeward.driver.wanted import Wanted
    from lakeward.registry import changes, generations, streams

    if not comment and not dry_run:
        raise typer.BadParameter("say why, in a sentence: it is kept with the change", param_hint="--comment")
    with state().registry() as connection:
        row = streams.get(connection, stream)
        kept = generations.get(connection, stream, row.generation)
    assert kept is not None, "a stream has the generation it runs"
    wanted, runtime, output = (
        Wanted(stream, row.generation, kept.spec, kept.checkpoint),
        state().runtime,
        state().output,
    )
    suited(wanted.spec, into)
    site, source = operator_of(None), str(next(iter(wanted.spec.sources)))
    start, end = (target.of(site, wanted.spec, each, {})[source] for each in (from_, to))
    if next_end(parse(start), parse(end), 0) is None:
        raise SpecError(
            f"There is nothing of stream {stream} between --from and --to",
            why=f"from {start}, to {end}",
            next="give --from an earlier time; times are those at which records were written to the topic",
        )
    with analysis.session([wanted.spec], runtime, lake=True) as spark:
        found = act(
            spark, wanted, runtime, start, end, into=into, dry_run=dry_run,
            tell=lambda report: output.note(f"batch {report.batches}: {report.landed:,} rows landed"),
        )  # fmt: skip
    data = document(found, dry_run=dry_run)
    if not dry_run:
        told = {name: data[name] for name in ("into", "position", "from", "to", "generation", "consumed", "landed")}
        with state().registry() as connection:
            changes.record(connection, "stream", stream, "backfill", author=author(), comment=comment, **told)
    output.either(data, data["detail"])


def document(found: Report, *, dry_run: bool) -> dict[str, Any]:
    """The JSON of an operation, with what the backfill did."""
    told = asdict(found)
    told["from"], told["to"] = told.pop("start"), told.pop("end")
    goes_on = f", on from {found.begun}" if found.begun else ""
    if dry_run:
        detail = f"dry run: would land {found.start} to {found.end} in {found.into} as {found.position}{goes_on}"
    elif not found.batches:
        detail = f"{found.into} has the range already, as {found.position}"
    else:
        detail = (
            f"{found.landed:,} rows of {found.consumed:,} records landed in {found.into} as {found.position}{goes_on}; "
            f"{found.quarantined:,} quarantined"
        )
    return {
        "operation": "backfill",
        "stream": found.stream,
        "result": "skipped" if dry_run else "done",
        "detail": detail,
        **told,
    }
