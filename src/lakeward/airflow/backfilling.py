"""A backfill as an operation of a stream's Dag: the command, in a process of its own.

What has landed stays, and the run, cleared, goes on where it came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.airflow import command
from lakeward.platform.errors import LakewardError, SpecError, TimedOut

if TYPE_CHECKING:
    from lakeward.platform.runtime import Home, Project, Runtime

OPERATION = "backfill"
WITHIN_S = 35 * 60.0
"""A little less than a task may work, so that it is said in plain words."""
_OPTIONS = {"from": "--from", "to": "--to", "into": "--into", "windows": "--windows", "from_files": "--from-files"}
"""Parameter of the run -> option of the command."""


def words(stream: str, params: Mapping[str, Any]) -> list[str]:
    """The command of a run.

    Raises:
        SpecError: a comment is missing.
    """
    said = ["streams", OPERATION, stream]
    for name, option in _OPTIONS.items():
        if params.get(name):
            said.append(f"{option}={params[name]}")
    if params.get("overwrite"):
        said.append("--overwrite")
    if params.get("dry_run"):
        return [*said, "--dry-run"]
    comment = str(params.get("comment") or "").strip()
    if not comment:
        raise SpecError(
            f"A backfill of stream {stream} needs a comment", why="it is kept with the change",
            next="say why, in a sentence, in the form's Comment",
         code="LW-6201")  # fmt: skip
    return [*said, f"--comment={comment}"]


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
    """Do it, and pass on what the command says.

    Raises:
        SpecError: a comment is missing.
        TimedOut: it is not done in time; what landed stays.
        LakewardError: the command failed; its reason stands above in the log.
    """
    code, over = command.run(words(stream, params), runtime, home, project, author, within_s=within_s)
    if over:
        raise TimedOut(
            f"The backfill of stream {stream} is not done yet",
            why=f"it was ended after {within_s / 60:.0f} min; what has landed stays",
            next="clear this run: it goes on where it came to. Or without Airflow: lakeward streams backfill",
            code="LW-6202",
        )
    if code:
        raise LakewardError(
            f"The backfill of stream {stream} did not succeed",
            why=f"the command ended with {code}; its reason is above",
            next="what has landed stays: clear this run when the reason is mended, and it goes on",
            code="LW-6203",
        )
