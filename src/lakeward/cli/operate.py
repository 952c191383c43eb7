"""Common part of all operation commands: show the plan, ask for approval, run, print the outcome."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.operations.operation import Operation
    from lakeward.operations.request import Outcome, Request
    from lakeward.operations.runner import Runner

Timeout = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="with --wait: how long, e.g. 90s; default: 5m, upgrade 15m to 30m"),
]
Patience = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="how long to wait for each stream; default: 5m")
]
Comment = Annotated[str, typer.Option(help="the reason; recorded with the change")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show exactly what would be done, and change nothing")]
Yes = Annotated[bool, typer.Option("--yes", help="approve the plan without a question; needs --comment")]
Kill = Annotated[
    bool,
    typer.Option(
        "--kill",
        help="kill the driver's process if it does not stop in time; give it up if its host cannot be reached",
    ),
]


def runner_of(timeout: str | None = None) -> Runner:
    """The runner, with the user of the command as author."""
    from lakeward.cli.deploy import author
    from lakeward.operations.runner import Runner
    from lakeward.spec.model.types import Duration
    from lakeward.telemetry import logs

    try:
        seconds = None if timeout is None else Duration(timeout).seconds
    except ValueError as error:
        raise SpecError(
            f"Cannot read --timeout {timeout}", why=str(error), next="give a duration: --timeout 90s", code="LW-1205"
        ) from None
    logs.to_stderr()
    who = author()
    return Runner(
        connect=lambda: state().registry(),
        runtime=state().runtime,
        author=who,
        holder=f"the command line of {who} on {socket.gethostname()}",
        settings=_settings,
        timeout_s=seconds,
        say=state().output.note,
    )


def _settings() -> Any:
    """The project's settings, for the size of drivers; the defaults without a project."""
    from lakeward.spec.read.loader import load_project

    return load_project(state().project).settings


def spark_of(runner: Runner) -> Callable[[Sequence[Assignment]], AbstractContextManager[SparkSession]]:
    """A function that opens a Spark session on this machine, with the lake's catalog, for some streams."""
    from lakeward.engine import analysis

    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    return lambda streams: analysis.session([assignment.spec for assignment in streams], runner.runtime, lake=True)


def operate(
    runner: Runner, requested: Request | Operation[Any], *, dry_run: bool = False, yes: bool = False
) -> Outcome:  # fmt: skip
    """Show the plan of an operation, ask for approval if needed, and run it.

    Raises:
        LakewardError: as `Runner.run`.
    """
    operation = runner.of(requested)
    if dry_run:
        outcome = runner.dry_run(operation)
        show(outcome.lines)
        return outcome
    if operation.needs_approval and runner.interrupted(operation) is None:
        operation = approved(runner, operation, yes=yes)
    return runner.run(operation)


def approved(runner: Runner, operation: Operation[Any], *, yes: bool) -> Operation[Any]:
    """Show the plan and ask for approval; returns the operation with the answer."""
    from lakeward.operations.request import Approval

    plan = runner.plan(operation)
    show((*plan.lines, f"This would {plan.text}."))
    comment = ""
    if not yes and sys.stdin.isatty() and not plan.nothing:
        comment = operation.request.comment or _answer("Why? (kept with the change; name no value of a row) ")
        yes = _answer(f"Type {operation.subject} to do it: ") == operation.subject
    return operation.answered(comment, Approval(runner.author, plan.key) if yes else None)


def show(lines: tuple[str, ...]) -> None:
    """Print lines to the terminal."""
    for line in lines:
        state().output.note(line)


def _answer(question: str) -> str:
    return str(state().output.messages.input(question)).strip()
