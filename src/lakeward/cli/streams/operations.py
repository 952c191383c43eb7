"""`lakeward streams start|stop|...`: operations on a stream. They also work while Airflow is down."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli import supervised
from lakeward.cli.context import state
from lakeward.cli.deploy import author
from lakeward.cli.operate import Comment, DryRun, Kill, Timeout, Yes, operate, runner_of
from lakeward.cli.streams.group import MaxParallel, OptionalStream, Stream, Tag, app
from lakeward.cli.streams.show import _view
from lakeward.platform.errors import LakewardError, SpecError

if TYPE_CHECKING:
    from lakeward.operations.runner import Runner

__all__ = ["app"]

Wait = Annotated[bool, typer.Option("--wait", help="return when it is done, not when it is requested")]


@app.command()
def start(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Start a stream and, if needed, its driver. With --wait: until a batch has landed or no records wait.

    Clears a block, ends a pause and lifts a hold.
    """
    _operate("start", stream, tag, max_parallel, _How(timeout, dry_run), comment=comment, wait=wait)


@app.command()
def stop(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    kill: Kill = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Stop a stream at the end of its running batch."""
    how = _How(timeout, dry_run)
    _operate("stop", stream, tag, max_parallel, how, comment=comment, wait=wait or kill, kill=kill)


@app.command()
def restart(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    kill: Kill = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Stop a stream at the end of its running batch and start it again."""
    _operate("restart", stream, tag, max_parallel, _How(timeout, dry_run), comment=comment, wait=wait, kill=kill)


@app.command()
def upgrade(
    stream: OptionalStream = None,
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Run the pending generation from the next batch boundary on. With --wait: until it is proven stable or idle.

    Idle: its driver runs and nothing waits at the source; the proof goes on without the command. Refused, with nothing
    stopped, if it cannot continue the checkpoint or its SQL fails analysis. A generation that does not land its first
    batches in time, or lags, is rolled back automatically: exit code 3.
    """
    _operate("upgrade", stream, tag, max_parallel, _How(timeout, dry_run), comment=comment, wait=wait)


@app.command()
def rollback(
    stream: OptionalStream = None,
    to_generation: Annotated[int | None, typer.Option(min=1, help="default: the last stable one")] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    tag: Tag = None,
    max_parallel: MaxParallel = 1,
) -> None:
    """Run an earlier generation again, restored from the registry. Without a number: the last stable one."""
    how = _How(timeout, dry_run)
    _operate("rollback", stream, tag, max_parallel, how, comment=comment, wait=wait, generation=to_generation)


@app.command()
def recover(
    stream: Stream, wait: Wait = False, timeout: Timeout = None, comment: Comment = "", dry_run: DryRun = False
) -> None:
    """Give a stopped or blocked stream a new checkpoint that begins at its table's position, and start it."""
    _operate("recover", stream, None, 1, _How(timeout, dry_run), comment=comment, wait=wait)


@app.command()
def reset(
    stream: Stream,
    to: Annotated[str, typer.Option(metavar="earliest|latest|available|TIME|FILE", help="where to continue")],
    accept_duplicates: Annotated[
        int, typer.Option(min=0, metavar="N", help="accept N duplicate rows; the number --dry-run shows")
    ] = 0,
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    kill: Kill = False,
) -> None:
    """Continue at other offsets of the source. Shows exactly what is skipped and read again, and asks.

    Stops the stream, moves its position, and starts it with a new checkpoint. `available` skips only records that have
    expired at the source. A FILE holds JSON offsets: {"topic": {"0": 1200}}; partitions that it does not name stay.
    """
    how = _How(timeout, dry_run, yes)
    more = {"to": to, "duplicates": accept_duplicates, "kill": kill}
    _operate("reset", stream, None, 1, how, comment=comment, wait=wait, **more)


@app.command("skip-batch")
def skip_batch(
    stream: Stream,
    batch: Annotated[int, typer.Option(min=0, help="the batch that failed, as status shows it")],
    wait: Wait = False,
    timeout: Timeout = None,
    comment: Comment = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    kill: Kill = False,
) -> None:
    """Skip the records of the batch that failed, and continue after it. Shows some of them, and asks.

    The position and the audit count them as skipped.
    """
    how = _How(timeout, dry_run, yes)
    _operate("skip-batch", stream, None, 1, how, comment=comment, wait=wait, batch=batch, kill=kill)


@app.command("import")
def import_(
    stream: Stream,
    checkpoint: Annotated[str | None, typer.Option(metavar="FOLDER", help="of the old toTable query")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="undo the import, while no batch has landed since")] = False,
    comment: Comment = "",
    dry_run: DryRun = False,
) -> None:
    """Continue a `toTable` query of your own: seed the stream's position from its checkpoint.

    The stream must be deployed with the query's table and topics (enabled: false) and must not run. Reports what was
    proved; refuses everything doubtful. The old checkpoint is only read.
    """
    _operate("import", stream, None, 1, _How(None, dry_run), comment=comment, folder=checkpoint, undo=undo)


@app.command()
def hold(
    stream: Stream,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="RFC 3339, e.g. 2026-11-21T06:00:00Z")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="e.g. 2h")] = None,
    comment: Comment = "",
) -> None:
    """Suspend automatic restarts of a stream until a time. A running query continues; a start lifts the hold."""
    from lakeward.cli.times import until_when
    from lakeward.operations import hold as holding

    moment = until_when(until, for_)
    with state().registry() as connection:
        detail = holding.hold(connection, stream, moment, author=author(), comment=comment)
    state().output.show({"operation": "hold", "stream": stream, "result": "done", "detail": detail})


@app.command()
def unhold(stream: Stream, comment: Comment = "") -> None:
    """Lift a hold: automatic restarts are on again."""
    from lakeward.operations import hold as holding

    with state().registry() as connection:
        detail = holding.lift(connection, stream, author=author(), comment=comment)
    state().output.show({"operation": "unhold", "stream": stream, "result": "done", "detail": detail})


@dataclass(frozen=True)
class _How:
    """Common options of operations."""

    timeout: str | None
    dry_run: bool
    yes: bool = False


def _operate(
    operation: str, stream: str | None, tag: str | None, max_parallel: int, how: _How, **arguments: Any
) -> None:
    if (stream is None) == (tag is None):
        raise SpecError(
            "Name one stream, or several with --tag",
            why="exactly one of STREAM and --tag is needed",
            next="lakeward streams list   shows the streams and, with -o json, their tags",
            code="LW-1233",
        )
    runner = runner_of(how.timeout)
    if stream is not None:
        state().output.show(_one(runner, operation, stream, how, arguments))
        _supervised(operation, how)
        return
    view = _view()
    names = [row.id for row in view.facts.streams if (spec := view.spec(row.id)) and tag in spec.tags]
    if not names:
        raise SpecError(
            f"No stream has the tag {tag!r}",
            why="tags are declared in the streams' files",
            next="lakeward streams list",
            code="LW-1234",
        )

    def attempt(name: str) -> tuple[Mapping[str, object], int]:
        try:
            return _one(runner, operation, name, how, arguments), 0
        except LakewardError as error:
            result = {2: "refused", 4: "refused", 5: "timed_out"}.get(error.exit_code, "failed")
            answer = {"operation": operation, "stream": name, "result": result, "detail": str(error)}
            return answer, error.exit_code

    with ThreadPoolExecutor(max_parallel) as pool:
        answers = list(pool.map(attempt, names))
    state().output.show({"operations": [answer for answer, _ in answers]}, rows="operations")
    _supervised(operation, how)
    worst = max(code for _, code in answers)
    if worst:
        raise typer.Exit(worst)


def _supervised(operation: str, how: _How) -> None:
    """After an operation that starts a stream: a warning if the stream is not supervised."""
    if operation not in ("stop", "import") and not how.dry_run:
        supervised.note()


def _one(runner: Runner, operation: str, stream: str, how: _How, arguments: dict[str, Any]) -> dict[str, object]:
    from lakeward.operations.request import Request

    return operate(runner, Request(operation, stream, **arguments), dry_run=how.dry_run, yes=how.yes).document
