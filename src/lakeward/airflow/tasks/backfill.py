"""Backfill as an operation of a stream's Dag: the command, in its own process.

Landed rows stay, and another run with the same values continues where the earlier one stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.airflow.tasks import command
from lakeward.platform.errors import LakewardError, SpecError, TimedOut

if TYPE_CHECKING:
    from lakeward.platform.runtime import Home, Project, Runtime

OPERATION = "backfill"
WITHIN_S = 35 * 60.0
"""A little less than the task's time limit, so that the error names the reason."""
_AGAIN = "trigger this Dag again with the same values: it continues where it stopped"
"""Not by clearing the run: Airflow 3.3 answers 500 for a failed run whose deadline is open (apache/airflow #70368)."""
_OPTIONS = {"from": "--from", "to": "--to", "into": "--into", "windows": "--windows", "from_files": "--from-files"}
"""Parameter of the run -> option of the command."""


def words(stream: str, params: Mapping[str, Any]) -> list[str]:
    """The command of a run.

    Raises:
        SpecError: a comment is missing.
    """
    arguments = ["streams", OPERATION, stream]
    for name, option in _OPTIONS.items():
        if params.get(name):
            arguments.append(f"{option}={params[name]}")
    if params.get("overwrite"):
        arguments.append("--overwrite")
    if params.get("dry_run"):
        return [*arguments, "--dry-run"]
    comment = str(params.get("comment") or "").strip()
    if not comment:
        raise SpecError(
            f"The backfill of stream {stream} has no comment", why="A backfill needs a comment for the audit log",
            next="fill in Comment in the trigger form",
         code="LW-6201")  # fmt: skip
    return [*arguments, f"--comment={comment}"]


def run(
    stream: str,
    params: Mapping[str, Any],
    runtime: Runtime,
    home: Home,
    project: Project,
    author: str,
    *,
    within_s: float = WITHIN_S,
) -> None:
    """Run the backfill, and log its output.

    Raises:
        SpecError: a comment is missing.
        TimedOut: it was not done in time; landed rows stay.
        LakewardError: the command failed; its reason is above in the log.
    """
    code, over = command.run(words(stream, params), runtime, home, project, author, within_s=within_s)
    if over:
        raise TimedOut(
            f"The backfill of stream {stream} is not complete",
            why=f"It was stopped after {within_s / 60:.0f} min. Landed rows stay",
            next=_AGAIN,
            code="LW-6202",
        )
    if code:
        raise LakewardError(
            f"The backfill of stream {stream} failed",
            why=f"The command exited with code {code}. Its error is above in the log. Landed rows stay",
            next=f"fix the reason, then {_AGAIN}",
            code="LW-6203",
        )
