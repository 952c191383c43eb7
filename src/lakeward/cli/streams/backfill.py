"""`streams backfill`: a range of a stream's source, landed beside the stream."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.group import Stream, app
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from lakeward.operations.backfill.backfill import Report
    from lakeward.operations.backfill.range import FilesSpan
    from lakeward.platform.runtime import Runtime
    from lakeward.spec.model.stream import StreamSpec

_WHERE = "earliest|latest|TIME|FILE"


@app.command()
def backfill(
    stream: Stream,
    from_: Annotated[
        str | None, typer.Option("--from", metavar=_WHERE, help="the first record of the range; of files: their time")
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar=_WHERE, help="the first record after it")] = "latest",
    into: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="another table, made when it is not there; default: the stream's"),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--overwrite", help="into the stream's table, in the place of the rows of the same records")
    ] = False,
    windows: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="compute the windows between two event times again, with late rows"),
    ] = None,
    margin: Annotated[
        str, typer.Option(help="with --windows: read records from so long before FROM on, e.g. 6h")
    ] = "1h",
    from_files: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="land these files instead: a file, a folder or a quoted pattern"),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="json|text|parquet|orc|avro", help="of the files; default: by their names"),
    ] = None,
    files_per_batch: Annotated[
        int | None, typer.Option(min=1, help="files landed at once; default: the source's own number, or 10")
    ] = None,
    comment: Annotated[str, typer.Option(help="why; kept with the change")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be read, and touch nothing")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="it always waits: the work is done by this command")] = True,
) -> None:
    """Land a range of the source once, beside the running stream, by the generation it runs.

    Under a position of its own: run again after a kill, it goes on where it came to. Starts a Spark of its own. A TIME
    is when a record was written to the topic; a FILE holds JSON offsets: {"topic": {"0": 1200}}. With --from-files the
    lines or rows of files are taken for records of the source; --from and --to then are times of the files. --overwrite
    is for tables that are only added to: what the stream has not landed of the range is left to it.
    """
    from lakeward.cli.deploy import author
    from lakeward.engine import analysis
    from lakeward.engine.assignment import Wanted
    from lakeward.operations.backfill.backfill import backfill as act
    from lakeward.operations.backfill.backfill import backfill_files, overwrite, repair_windows
    from lakeward.operations.backfill.eligibility import overwritable, repairable, suited
    from lakeward.registry import changes, generations, streams
    from lakeward.tables.guard import readers

    if not comment and not dry_run:
        raise typer.BadParameter("say why, in a sentence: it is kept with the change", param_hint="--comment")
    if from_ is None and from_files is None and windows is None:
        raise typer.BadParameter("where the range begins, or --from-files, or --windows", param_hint="--from")
    if windows is not None and (from_ or from_files or into or in_place):
        raise typer.BadParameter("goes with --margin alone: it finds the records itself", param_hint="--windows")
    if from_files is None and (format_ or files_per_batch):
        raise typer.BadParameter("says something of --from-files", param_hint="--format, --files-per-batch")
    if in_place and (into or from_files):
        other = "--into" if into else "--from-files"
        raise typer.BadParameter(f"puts records of the source into the stream's own table; leave out {other}",
                                 param_hint="--overwrite")  # fmt: skip
    with state().registry() as connection:
        row = streams.get(connection, stream)
        kept = generations.get(connection, stream, row.generation)
        reading = readers.registered(connection)
    assert kept is not None, "a stream has the generation it runs"
    wanted, runtime, output = (
        Wanted(stream, row.generation, kept.spec, kept.checkpoint),
        state().runtime,
        state().output,
    )
    grown = sorted({each.stream for each in reading.get(str(wanted.spec.sink.label), ())})
    if windows is not None:
        repairable(wanted.spec, grown)
    elif in_place:
        overwritable(wanted.spec, grown)
    else:
        suited(wanted.spec, into, files=from_files is not None)

    def tell(report: Report) -> None:
        output.note(f"batch {report.batches}: {report.landed:,} rows landed")

    if windows is not None:
        low, high = _between(windows)
        with analysis.session([wanted.spec], runtime, lake=True) as spark:
            found = repair_windows(
                spark, wanted, runtime, low, high, margin=_length(margin), readers=grown, dry_run=dry_run, tell=tell
            )
    elif from_files is not None:
        span = _files(wanted.spec, runtime, from_files, from_, to, format_, files_per_batch)
        with analysis.session([wanted.spec], runtime, lake=True) as spark:
            found = backfill_files(spark, wanted, runtime, span, into=into, dry_run=dry_run, tell=tell)
    else:
        start, end = _offsets(wanted.spec, str(from_), to)
        with analysis.session([wanted.spec], runtime, lake=True) as spark:
            if in_place:
                found = overwrite(spark, wanted, runtime, start, end, readers=grown, dry_run=dry_run, tell=tell)
            else:
                found = act(spark, wanted, runtime, start, end, into=into, dry_run=dry_run, tell=tell)
    data = document(found, dry_run=dry_run)
    if not dry_run:
        told = {name: data[name] for name in ("into", "position", "from", "to", "generation", "consumed", "landed")}
        with state().registry() as connection:
            changes.record(connection, "stream", stream, "backfill", author=author(), comment=comment, **told)
    output.either(data, data["detail"])


def _offsets(spec: StreamSpec, from_: str, to: str) -> tuple[str, str]:
    """The range of the source, as canonical offsets.

    Raises:
        SpecError: there is nothing in it.
    """
    from lakeward.cli.operate import runner_of
    from lakeward.connectors.kafka.position import parse
    from lakeward.operations import reset_target
    from lakeward.operations.backfill.eligibility import next_end

    site, source = runner_of(), str(next(iter(spec.sources)))
    start, end = (reset_target.of(site, spec, each, {})[source] for each in (from_, to))
    if next_end(parse(start), parse(end), 0) is None:
        raise SpecError(
            f"There is nothing of stream {spec.id} between --from and --to",
            why=f"from {start}, to {end}",
            next="give --from an earlier time; times are those at which records were written to the topic",
        )
    return start, end


def _files(
    spec: StreamSpec, runtime: Runtime, pattern: str, from_: str | None, to: str, kind: str | None, most: int | None
) -> FilesSpan:
    """The files, listed once."""
    from lakeward.connectors.files import listing
    from lakeward.operations.backfill import range

    words = ("earliest", "latest")
    since, until = (None if each is None or each in words else _time(each) for each in (from_, to))
    return range.of_files(spec, runtime, listing.look(pattern, since, until), kind, most)


def _between(text: str) -> tuple[datetime, datetime]:
    """The two times of `--windows`."""
    low, dots, high = text.partition("..")
    if not dots:
        raise typer.BadParameter("two times with .. between them: 2026-11-01T00:00Z..2026-11-02T00:00Z",
                                 param_hint="--windows")  # fmt: skip
    found = _time(low, "--windows takes two event times"), _time(high, "--windows takes two event times")
    if found[0] >= found[1]:
        raise typer.BadParameter(f"{low} is not before {high}", param_hint="--windows")
    return found


def _length(text: str) -> timedelta:
    from pydantic import TypeAdapter, ValidationError

    from lakeward.spec.model.types import Duration

    try:
        return timedelta(seconds=TypeAdapter(Duration).validate_python(text).seconds)
    except ValidationError:
        raise typer.BadParameter("a duration such as 90m, 6h or 2d", param_hint="--margin") from None


_FILE_TIMES = "with --from-files, --from and --to are times at which files were changed last"


def _time(text: str, why: str = _FILE_TIMES) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(
            f"{text} is no time",
            why=why,
            next="write it like 2026-11-21T03:00:00Z, or leave it out",
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def document(found: Report, *, dry_run: bool) -> dict[str, Any]:
    """The JSON of an operation, with what the backfill did."""
    told = asdict(found)
    told["from"], told["to"] = told.pop("start"), told.pop("end")
    goes_on = f", on from {found.begun}" if found.begun else ""
    if found.windows and not dry_run:
        read = f"read {found.start} to {found.end}"
        detail = f"{found.landed:,} rows of {found.into} computed again, {read}: {found.windows}"
    elif dry_run:
        detail = f"dry run: would land {found.start} to {found.end} in {found.into} as {found.position}{goes_on}"
        detail += f"; {found.windows}" if found.windows else ""
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
