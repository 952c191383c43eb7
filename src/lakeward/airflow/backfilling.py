"""A backfill as an operation of a stream's Dag: the command, in a process of its own, told line by line.

Spark never comes into a worker's process. The process knows nothing of Airflow's environment, and ends with the task:
what has landed stays, and the run, cleared, goes on where it came to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.errors import LakewardError, SpecError, TimedOut

if TYPE_CHECKING:
    from lakeward.runtime import Home, Project, Runtime

log = structlog.get_logger(__name__)

OPERATION = "backfill"
WITHIN_S = 35 * 60.0
"""A little less than a task may work, so that it is said in plain words."""
_KEPT = ("PATH", "HOME", "LANG", "LC_CTYPE", "TMPDIR", "JAVA_HOME", "AWS_CA_BUNDLE")
_GRACE_S = 20.0
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
        )  # fmt: skip
    return [*said, f"--comment={comment}"]


def environment(runtime: Runtime, author: str) -> dict[str, str]:
    """What the process may know: nothing of Airflow, and where the registry is."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    passwords = runtime.pgpass or os.environ.get("PGPASSFILE")
    if passwords:
        kept["PGPASSFILE"] = str(passwords)
    return kept | {
        "LAKEWARD_REGISTRY_URL_FILE": str(runtime.registry_url_file),
        "LAKEWARD_AUTHOR": author,
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }


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
    said = [*words(stream, params), "--home", str(home.root), "--project", str(project.root)]
    code, over = _ran(said, environment(runtime, author), within_s)
    if over:
        raise TimedOut(
            f"The backfill of stream {stream} is not done yet",
            why=f"it was ended after {within_s / 60:.0f} min; what has landed stays",
            next="clear this run: it goes on where it came to. Or without Airflow: lakeward streams backfill",
        )
    if code:
        raise LakewardError(
            f"The backfill of stream {stream} did not succeed",
            why=f"the command ended with {code}; its reason is above",
            next="what has landed stays: clear this run when the reason is mended, and it goes on",
        )


def _ran(said: Sequence[str], environment: Mapping[str, str], within_s: float) -> tuple[int, bool]:
    """The exit code, and whether the time was over."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeward", *said],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=dict(environment),
    )
    over = threading.Event()

    def late() -> None:
        over.set()
        process.terminate()

    timer = threading.Timer(within_s, late)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdout is not None, "it is a pipe"
        for line in process.stdout:
            if line.strip():
                log.info(line.rstrip())
        return process.wait(), over.is_set()
    finally:  # the task is killed, or its time is over: nothing of it stays behind
        timer.cancel()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
