"""Subprocess command: a task runs `lakeward` in its own process and logs its output, for work that needs Spark.

Spark never runs in a worker's process. The process does not inherit Airflow's environment, and ends with the task.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from lakeward.platform.errors import expect

if TYPE_CHECKING:
    from lakeward.platform.runtime import Home, Project, Runtime

log = structlog.get_logger(__name__)

_INHERITED = ("PATH", "HOME", "LANG", "LC_CTYPE", "TMPDIR", "JAVA_HOME", "AWS_CA_BUNDLE")
_GRACE_S = 20.0


def environment(runtime: Runtime, author: str) -> dict[str, str]:
    """The environment of the process: nothing of Airflow, and the address of the registry."""
    variables = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    passwords = runtime.pgpass or os.environ.get("PGPASSFILE")
    if passwords:
        variables["PGPASSFILE"] = str(passwords)
    return variables | {
        "LAKEWARD_REGISTRY_URL_FILE": str(runtime.registry_url_file),
        "LAKEWARD_AUTHOR": author,
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }


def run(
    words: Sequence[str], runtime: Runtime, home: Home, project: Project, author: str, *, within_s: float
) -> tuple[int, bool]:
    """Run `lakeward` with these arguments, and log its output.

    Returns:
        The exit code, and whether it was terminated at the time limit.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeward", *words, "--home", str(home.root), "--project", str(project.root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment(runtime, author),
    )
    over = threading.Event()

    def late() -> None:
        over.set()
        process.terminate()

    timer = threading.Timer(within_s, late)
    timer.daemon = True
    timer.start()
    try:
        for line in expect(process.stdout, "the pipe from the process"):
            if line.strip():
                log.info(line.rstrip())
        return process.wait(), over.is_set()
    finally:  # the task is killed, or the time limit is reached: no process remains
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
