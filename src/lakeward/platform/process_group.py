"""A command with a time limit, in a process group of its own: what the command starts ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO


def run(command: Sequence[str], *, limit_s: float, env: Mapping[str, str], cwd: Path, output: IO[bytes]) -> int:
    """Run it to its end; its exit code.

    A JVM that a Python process starts outlives that process, so the whole group is killed at the time limit, and when
    this process is interrupted.

    Args:
        output: a file that takes its stdout and stderr.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer than `limit_s` seconds, and was killed.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd, start_new_session=True
    )
    try:
        return process.wait(limit_s)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
