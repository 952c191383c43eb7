"""Thread dumps of a hung process, written before it is ended. Time-limited, because the process may never answer.

Stacks only: no environment, no command line, no system properties, because those may contain secrets.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

from lakeward.supervision.backends import identity

ANSWER_S = 10.0
FOLDER = "dumps"
KEEP = 10
"""Number of dumps kept in one launch's folder, the driver's own included."""


def write(pid: int, folder: Path) -> Path | None:
    """Write the stacks of a Python process and the JVMs below it; None if none could be taken."""
    python = _python(pid) or (_states(pid) if identity.stopped(pid) else "")
    jvms = [_states(child) if identity.stopped(child) else _java(child) for child in _jvms(pid)]
    parts = [part for part in (python, *jvms) if part]
    if not parts:
        return None
    file = folder / FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-driver.txt"
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n\n".join(parts))
        for old in sorted(file.parent.iterdir())[:-KEEP]:
            old.unlink(missing_ok=True)
    except OSError:
        return None  # a full disk must not keep a hung driver alive
    return file


def _jvms(pid: int) -> list[int]:
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    jvms = []
    for child in below:
        try:
            if child.name() == "java":
                jvms.append(child.pid)
        except psutil.Error:
            continue
    return jvms


def _states(pid: int) -> str:
    """How many threads of a stopped process are in which state: it answers no tool, which would wait for its time."""
    states: dict[str, int] = {}
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = thread.read_text().rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            continue  # the thread ended
        states[state] = states.get(state, 0) + 1
    listed = ", ".join(f"{number} in state {state}" for state, number in sorted(states.items())) or "not known"
    return f"Process {pid} is stopped (SIGSTOP, or a suspended host), so it has no stacks to read. Threads: {listed}"


def _java(pid: int) -> str:
    """`jcmd Thread.print`, else `jstack`; without a JDK, SIGQUIT, on which the JVM prints to its own output."""
    for tool, *rest in (("jcmd", str(pid), "Thread.print", "-l"), ("jstack", "-l", str(pid))):
        program = _tool(tool)
        text = _run([program, *rest]) if program else ""
        if text:
            return f"JVM, process {pid}\n{text}"
    try:
        os.kill(pid, signal.SIGQUIT)
    except OSError:
        return ""
    return f"JVM, process {pid}: its threads are in stdout.log (no jcmd or jstack here)"


def _python(pid: int) -> str:
    program = shutil.which("py-spy")
    text = _run([program, "dump", "--pid", str(pid)]) if program else ""
    # Its first lines contain the command line.
    body = "\n".join(line for line in text.splitlines() if not line.startswith(("Process ", "Python v")))
    return f"Python, process {pid}\n{body.strip()}" if body.strip() else ""


def _tool(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    bundled = Path(home) / "bin" / name if home else None
    return str(bundled) if bundled is not None and bundled.exists() else shutil.which(name)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
