"""Failpoints: named steps at which a test kills a process, or runs a function.

An unused step costs one dictionary look-up. The environment decides when the process starts:
`LAKEWARD_FAILPOINT=<step>` (or `<step>:<n>` for its n-th time) kills the process with SIGKILL there, and only if
`LAKEWARD_FAILPOINTS_ALLOWED=1` is set as well. `LAKEWARD_FAILPOINT_SIGNAL=SIGSTOP` suspends it instead, and
a test resumes it. `LAKEWARD_FAILPOINT_ONCE=<file>` makes it happen once over all restarts: the file is created first.

`LAKEWARD_FAILPOINT_FOLDER=<folder>` (with the same permission) stops one stream of many, any number of times:
while the file `<stream>.<step>` exists, with a batch number in it, that batch and later ones create the file
`<stream>.<step>.reached` and wait at the step, until the process is killed or the first file is removed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_hooks: dict[str, Callable[[], None]] = {}
_passed: dict[str, int] = {}
_batch = threading.local()
"""`.now`: stream id and batch number of this thread."""


def hit(step: str) -> None:
    """Pass a step: nothing happens unless a test configured it."""
    if _hooks and (hook := _hooks.get(step)) is not None:
        hook()
    if os.environ.get("LAKEWARD_FAILPOINTS_ALLOWED") != "1":
        return
    configured = os.environ.get("LAKEWARD_FAILPOINT")
    if configured:
        name, _, at = configured.partition(":")
        if name == step:
            _passed[step] = _passed.get(step, 0) + 1
            if _passed[step] == int(at or 1) and _first_time():
                os.kill(os.getpid(), signal.Signals[os.environ.get("LAKEWARD_FAILPOINT_SIGNAL", "SIGKILL")])
    folder = os.environ.get("LAKEWARD_FAILPOINT_FOLDER")
    if folder and (now := getattr(_batch, "now", None)) is not None:
        _wait(Path(folder) / f"{now[0]}.{step}", now[1])


@contextmanager
def batch(stream: str, number: int) -> Iterator[None]:
    """Record the stream and batch of this thread, for the failpoints of one stream."""
    _batch.now = (stream, number)
    try:
        yield
    finally:
        _batch.now = None


@contextmanager
def on(step: str, hook: Callable[[], None]) -> Iterator[None]:
    """Run `hook` in this process whenever `step` is passed; what it raises is raised there."""
    _hooks[step] = hook
    try:
        yield
    finally:
        with suppress(KeyError):
            del _hooks[step]


def _first_time() -> bool:
    marker = os.environ.get("LAKEWARD_FAILPOINT_ONCE")
    if not marker:
        return True
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def _wait(armed: Path, number: int) -> None:
    try:
        least = int(armed.read_text())
    except FileNotFoundError:
        return
    if number >= least:
        armed.with_name(f"{armed.name}.reached").touch()
        while armed.exists():
            time.sleep(0.02)
