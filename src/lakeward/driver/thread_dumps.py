"""Thread dumps of a launch: the JVM's and Python's threads when a batch hung. The newest few are kept."""

from __future__ import annotations

import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path

from lakeward.driver.jvm import Jvm

FOLDER = "dumps"
RETAINED = 10


def write(folder: Path, name: str, jvm: Jvm) -> str:
    """Write one dump into a launch's folder and return its path; `name` says what hung.

    If it cannot be written (e.g. a full disk), the returned text says why.
    """
    place = folder / FOLDER
    file = place / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{name}.txt"
    try:
        place.mkdir(exist_ok=True)
        _write(file, jvm)
        for old in sorted(place.iterdir())[:-RETAINED]:
            old.unlink()
    except OSError as error:
        return f"not written ({file}: {error.strerror})"
    return str(file)


def text(jvm: Jvm | None = None) -> str:
    """One dump; without a JVM, of Python alone."""
    return f"Python threads\n\n{_python_threads()}" + (f"\nJVM threads\n\n{jvm.threads()}" if jvm is not None else "")


def _write(file: Path, jvm: Jvm) -> None:
    file.write_text(text(jvm))


def _python_threads() -> str:
    """Stack traces of all threads by name. `faulthandler` has no names and omits all but the newest hundred threads, so
    also the main one."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, 'not of Python')} ({ident})\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
