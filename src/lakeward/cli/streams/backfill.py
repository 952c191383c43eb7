"""`streams backfill`: land a range of a stream's source beside the stream."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import operate, runner_of
from lakeward.cli.streams.group import Stream, app
from lakeward.cli.table_names import plain
from lakeward.platform.errors import SpecError


def _not(end: str) -> Callable[[str | None], str | None]:
    """A check of one bound of the range: at this end of the topic the range has no record."""

    def checked(given: str | None) -> str | None:
        if given == end:
            raise typer.BadParameter(f"the range would be empty: no record is {_BEYOND[end]}")
        return given

    return checked


_BEYOND = {"latest": "after the latest", "earliest": "before the earliest"}
_FORMATS = ("json", "csv", "text", "parquet", "orc", "avro")


def _format(given: str | None) -> str | None:
    if given is not None and given not in _FORMATS:
        raise typer.BadParameter(f"{given!r} is not one of: {', '.join(_FORMATS)}")
    return given


@app.command()
def backfill(
    stream: Stream,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="earliest|TIME|FILE",
            callback=_not("latest"),
            help="the first record of the range; of files: their time",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option("--to", metavar="latest|TIME|FILE", callback=_not("earliest"), help="the first record after it"),
    ] = "latest",
    into: Annotated[
        str | None,
        typer.Option(callback=plain, metavar="TABLE", help="another table, created if missing; default: the stream's"),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--overwrite", help="replace the rows of the same records in the stream's table")
    ] = False,
    windows: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="recompute the windows between two event times, with late rows"),
    ] = None,
    margin: Annotated[
        str, typer.Option(help="with --windows: read records from this long before FROM on, e.g. 6h")
    ] = "1h",
    from_files: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="land these files instead: a file, a folder or a quoted pattern"),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="|".join(_FORMATS), callback=_format, help="of the files; default: by their names"
        ),
    ] = None,
    files_per_batch: Annotated[
        int | None, typer.Option(min=1, help="files landed at once; default: the source's own number, or 10")
    ] = None,
    comment: Annotated[str, typer.Option(help="the reason; recorded with the change")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be read, and change nothing")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="it always waits: the work is done by this command")] = True,
) -> None:
    """Land a range of the source once, beside the running stream, by the generation it runs.

    The backfill has its own position: repeated after a kill, it continues there. Starts its own Spark. A TIME is when a
    record was written to the topic; a FILE holds JSON offsets: {"topic": {"0": 1200}}. With --from-files the lines or
    rows of files are records of the source; --from and --to are then times of the files. --overwrite is for sinks of
    mode append; the part of the range that the stream has not landed yet is left to it.
    """
    from lakeward.engine import analysis
    from lakeward.operations.backfill.operation import Backfill, Files, Options
    from lakeward.operations.request import Request

    if from_ is None and from_files is None and windows is None:
        raise typer.BadParameter("where the range begins, or --from-files, or --windows", param_hint="--from")
    if windows is not None and (from_ or from_files or into or in_place):
        raise typer.BadParameter("goes with --margin alone: it finds the records itself", param_hint="--windows")
    if from_files is None and (format_ or files_per_batch):
        raise typer.BadParameter("needs --from-files", param_hint="--format, --files-per-batch")
    if in_place and (into or from_files):
        other = "--into" if into else "--from-files"
        raise typer.BadParameter(f"puts records of the source into the stream's own table; leave out {other}",
                                 param_hint="--overwrite")  # fmt: skip
    output, words = state().output, ("earliest", "latest")
    files = None
    if from_files is not None:
        since, until = (None if bound is None or bound in words else _time(bound) for bound in (from_, to))
        files = Files(from_files, since, until, format_, files_per_batch)
    options = Options(
        from_ or "earliest", to, into, in_place, None if windows is None else _between(windows), _length(margin), files
    )
    runner = runner_of()
    operation = Backfill(
        runner, Request(Backfill.name, stream, comment), options,
        spark=lambda spec: analysis.session([spec], runner.runtime, lake=True),
        report_progress=lambda report: output.note(f"batch {report.batches}: {report.landed:,} rows landed"),
    )  # fmt: skip
    outcome = operate(runner, operation, dry_run=dry_run)
    output.either(outcome.document, outcome.detail)


def _between(text: str) -> tuple[datetime, datetime]:
    """The two times of `--windows`."""
    low, dots, high = text.partition("..")
    if not dots:
        raise typer.BadParameter("two times with .. between them: 2026-11-01T00:00Z..2026-11-02T00:00Z",
                                 param_hint="--windows")  # fmt: skip
    times = _time(low, "--windows takes two event times"), _time(high, "--windows takes two event times")
    if times[0] >= times[1]:
        raise typer.BadParameter(f"{low} is not before {high}", param_hint="--windows")
    return times


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
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(
            f"Cannot read {text} as a time",
            why=why,
            next="write it like 2026-11-21T03:00:00Z, or omit it",
            code="LW-1227",
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
