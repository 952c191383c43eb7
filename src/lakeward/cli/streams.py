"""`lakeward streams ...`: see streams, start and stop them. Works with Airflow down."""

from __future__ import annotations

import getpass
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.errors import LakewardError, Refused, SpecError

if TYPE_CHECKING:
    from lakeward.cli.stream_status import View
    from lakeward.control.operate import Operator, Outcome

app = typer.Typer(help="See streams, start and stop them, prove what they landed.", no_args_is_help=True)

Stream = Annotated[str, typer.Argument(help="the stream's id", metavar="STREAM")]
OptionalStream = Annotated[str | None, typer.Argument(help="the stream's id; or --tag for many", metavar="[STREAM]")]
Wait = Annotated[bool, typer.Option("--wait", help="return when it is done, not when it is asked for")]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="with --wait: how long, e.g. 90s or 5m")]
Comment = Annotated[str, typer.Option(help="why; kept with the change")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would be done")]
Tag = Annotated[str | None, typer.Option(help="all streams with this tag")]
MaxParallel = Annotated[int, typer.Option(min=1, help="with --tag: how many at the same time")]
Lines = Annotated[int, typer.Option("--lines", "-n", min=1, help="how many")]


def _view() -> View:
    """All streams now, judged here and not by whoever reconciled last: Airflow may be down."""
    from lakeward.cli.stream_status import look_at
    from lakeward.control import look
    from lakeward.control.reconcile import backend_of

    with state().registry() as connection:
        facts = look.read(connection)
    return look_at(facts, look.ask(backend_of(state().runtime), facts))


@app.command("list")
def list_streams(
    only: Annotated[str | None, typer.Option("--state", help="only streams with this state")] = None,
    tag: Tag = None,
    owner: Annotated[str | None, typer.Option(help="only streams of this owner")] = None,
) -> None:
    """Every stream: its state, since when, and why."""
    from lakeward.cli.stream_status import entry
    from lakeward.cli.stream_text import table
    from lakeward.streams.health import State

    words = [each.value for each in State]
    if only is not None and only not in words:
        raise SpecError(f"There is no state {only!r}", why=f"states are: {', '.join(words)}")
    view = _view()
    found = [entry(view, stream) for stream in view.facts.streams]
    found = [
        each
        for each in found
        if (only is None or each["state"] == only)
        and (tag is None or tag in each["tags"])
        and (owner is None or each["owner"] == owner)
    ]
    state().output.either({"streams": found}, table(found, view.facts.now))


@app.command()
def status(stream: Stream) -> None:
    """One stream: what is wrong, how far behind, what landed, what to do. Exit code 3 when it is down."""
    from lakeward.cli import stream_status
    from lakeward.cli.stream_text import block
    from lakeward.registry import batches, streams
    from lakeward.streams.health import TROUBLE

    view = _view()
    with state().registry() as connection:
        row = streams.get(connection, stream)
        newest = next(iter(batches.newest(connection, stream, limit=1)), None)
        totals = batches.totals(connection, stream)
    if row.id not in view.verdicts:
        raise SpecError(f"Stream {stream} was removed", why=f"at {row.removed_at}", next="lakeward streams list")
    spec = view.spec(stream)
    asked = stream_status.Sources()
    if spec is not None:
        asked = stream_status.ask_sources(state().runtime, spec, (newest or {}).get("end_offsets") or {})
    found = stream_status.status(view, row, asked, newest, totals["late_dropped"] if newest else None)
    state().output.either(found, block(found, view.facts.now))
    if view.verdicts[stream].state in TROUBLE:
        raise typer.Exit(3)


@app.command()
def start(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = "5m",
    comment: Comment = "",
    dry_run: DryRun = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Start a stream, and with it its driver. With --wait: until a batch has landed or nothing waits."""
    _operate("start", stream, tag, max_parallel, wait, timeout, comment, dry_run)


@app.command()
def stop(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = "5m",
    comment: Comment = "",
    dry_run: DryRun = False,
    kill: Annotated[bool, typer.Option("--kill", help="end the process when it does not stop in time")] = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Stop a stream at the end of its running batch."""
    _operate("stop", stream, tag, max_parallel, wait or kill, timeout, comment, dry_run, kill=kill)


@app.command()
def restart(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = "5m",
    comment: Comment = "",
    dry_run: DryRun = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Stop a stream at the end of its running batch and start it again."""
    _operate("restart", stream, tag, max_parallel, wait, timeout, comment, dry_run)


@app.command()
def recover(stream: Stream, comment: Comment = "", dry_run: DryRun = False) -> None:
    """Give a stopped or blocked stream a new checkpoint where its table's position ends, and let it run."""
    from lakeward.cli.deploy import author
    from lakeward.control import recover as recovering

    def registry() -> Any:
        return state().registry()

    done = recovering.recover(registry, state().runtime, stream, author=author(), comment=comment, dry_run=dry_run)
    detail = f"dry run: {done.words}" if dry_run else done.words
    if not dry_run:
        _one("start", stream, wait=False, timeout="5m", comment=comment, dry_run=False, kill=False)
    result = "skipped" if dry_run else "done"
    state().output.show({"operation": "recover", "stream": stream, "result": result, "detail": detail})


def _operate(
    operation: str,
    stream: str | None,
    tag: str | None,
    max_parallel: int,
    wait: bool,
    timeout: str,
    comment: str,
    dry_run: bool,
    *,
    kill: bool = False,
) -> None:
    if (stream is None) == (tag is None):
        raise SpecError("Name one stream, or many with --tag", next=f"lakeward streams {operation} flights --wait")
    if stream is not None:
        found = _one(operation, stream, wait, timeout, comment, dry_run, kill)
        state().output.show(found)
        return
    view = _view()
    names = [row.id for row in view.facts.streams if (spec := view.spec(row.id)) and tag in spec.tags]
    if not names:
        raise SpecError(f"No stream has the tag {tag!r}", next="lakeward streams list")

    def attempt(name: str) -> tuple[dict[str, Any], LakewardError | None]:
        try:
            return _one(operation, name, wait, timeout, comment, dry_run, kill), None
        except LakewardError as error:
            result = {4: "refused", 5: "timed_out"}.get(error.exit_code, "failed")
            return {"operation": operation, "stream": name, "result": result, "detail": str(error)}, error

    with ThreadPoolExecutor(max_parallel) as pool:
        answers = list(pool.map(attempt, names))
    state().output.show({"operations": [each for each, _ in answers]}, rows="operations")
    errors = [error for _, error in answers if error is not None]
    if errors:
        raise typer.Exit(max(error.exit_code for error in errors))


def _one(
    operation: str, stream: str, wait: bool, timeout: str, comment: str, dry_run: bool, kill: bool
) -> dict[str, Any]:
    from lakeward.control.operate import Operation

    operator = _operator(timeout)
    if dry_run:
        return _would(operation, stream)
    done: Outcome = operator.run(Operation(operation), stream, comment=comment, wait=wait, kill=kill)
    return {"operation": done.operation, "stream": done.stream, "result": done.result, "detail": done.detail}


def _would(operation: str, stream: str) -> dict[str, Any]:
    from lakeward.registry import streams

    with state().registry() as connection:
        row = streams.get(connection, stream)
    if row.removed_at is not None and operation != "stop":
        raise Refused(f"Stream {stream} cannot be started", why="its file was removed and deployed")
    detail = {
        "start": f"would run on driver {row.driver}, generation {row.generation}",
        "stop": f"would stop at the end of the running batch; now {row.desired} is wanted",
        "restart": f"would stop at the end of the running batch and run again on driver {row.driver}",
    }[operation]
    return {"operation": operation, "stream": stream, "result": "skipped", "detail": f"dry run: {detail}"}


def _operator(timeout: str) -> Operator:
    from lakeward.control.operate import Operator
    from lakeward.spec.types import Duration
    from lakeward.telemetry import logs

    try:
        seconds = Duration(timeout).seconds
    except ValueError as error:
        raise SpecError(f"--timeout {timeout} is not a duration", why=str(error)) from None
    logs.to_stderr()
    who = getpass.getuser()
    return Operator(
        connect=lambda: state().registry(),
        runtime=state().runtime,
        author=who,
        holder=f"the command line of {who} on {socket.gethostname()}",
        settings=_settings(),
        timeout_s=seconds,
    )


def _settings() -> Any:
    """The project's settings, for the size of drivers; the defaults where there is no project here."""
    from lakeward.spec.loader import load_project

    return load_project(state().project).settings


@app.command()
def audit(stream: Stream) -> None:
    """Prove what landed: every source position against the tables. Exit code 3 when any is missing or doubled."""
    from lakeward.cli import stream_audit
    from lakeward.registry import batches, streams

    with state().registry() as connection:
        streams.get(connection, stream)
        totals = batches.totals(connection, stream)
    spec = _view().spec(stream)
    if spec is None:
        raise SpecError(f"Stream {stream} has no generation to audit", next="lakeward deploy")
    found = stream_audit.audit(state().runtime, spec, totals["late_dropped"])
    columns = ["source", "partition", "from", "to", "missing", "duplicates"]
    state().output.show(found, rows="partitions", columns=columns)
    if found["missing"] or found["duplicates"] or found.get("beyond"):
        raise typer.Exit(3)


@app.command()
def events(stream: Stream, lines: Lines = 30) -> None:
    """The timeline of a stream and of its driver, oldest first."""
    from lakeward.cli.stream_text import timeline
    from lakeward.registry import events as recorded
    from lakeward.registry import streams

    with state().registry() as connection:
        row = streams.get(connection, stream)
        found = recorded.newest(connection, "stream", stream, lines)
        found += recorded.newest(connection, "driver", row.driver, lines)
    found = sorted(found, key=lambda each: (each["at"], each["id"]))[-lines:]
    shown = [{name: each[name] for name in ("at", "scope", "name", "kind", "text", "fields")} for each in found]
    state().output.either({"stream": stream, "events": shown}, timeline(shown))


@app.command()
def logs(stream: Stream, lines: Lines = 50) -> None:
    """The newest log lines of a stream's driver that concern it."""
    from lakeward.cli.stream_logs import tail
    from lakeward.cli.stream_text import log_line
    from lakeward.registry import drivers, streams

    with state().registry() as connection:
        row = streams.get(connection, stream)
        driver = drivers.find(connection, row.driver)
    if driver is None or driver.log is None:
        raise SpecError(
            f"Stream {stream} has no log yet",
            why=f"driver {row.driver} was never launched",
            next=f"lakeward streams start {stream}",
        )
    file, found = tail(Path(driver.log), stream, lines)
    if file is None:
        raise LakewardError(f"The log of driver {row.driver} is gone", why=f"{driver.log} holds none")
    state().output.note(str(file))
    data = {"stream": stream, "driver": row.driver, "file": file, "lines": found}
    state().output.either(data, "\n".join(log_line(each) for each in found))
