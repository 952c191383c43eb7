"""Thread dumps of a launch: what the JVM and Python were doing when a batch hung. The newest few are kept."""

from __future__ import annotations

import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path

from lakeward.driver.jvm import Jvm

FOLDER = "dumps"
KEPT = 10


def write(folder: Path, name: str, jvm: Jvm) -> str:
    """Write one dump below a launch's folder and give its path; `name` says what hung.

    A dump that cannot be written (a full disk) keeps nobody from what follows; the text says why it is not there.
    """
    place = folder / FOLDER
    file = place / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{name}.txt"
    try:
        place.mkdir(exist_ok=True)
        _write(file, jvm)
        for old in sorted(place.iterdir())[:-KEPT]:
            old.unlink()
    except OSError as error:
        return f"not there ({file}: {error.strerror})"
    return str(file)


def _write(file: Path, jvm: Jvm) -> None:
    file.write_text(f"Python threads\n\n{_python_threads()}\nJVM threads\n\n{jvm.threads()}")


def _python_threads() -> str:
    """Every thread by name. `faulthandler` knows no names and leaves out whatever comes after the hundredth thread,
    the main one first of all."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, 'not of Python')} ({ident})\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
