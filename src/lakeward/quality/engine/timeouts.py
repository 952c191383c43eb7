"""How long checks may wait for the engine: what has no answer by then is interrupted, and is an error of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = structlog.get_logger(__name__)

PATIENCE_S = 900.0
"""For all checks that read the same rows; half of what a whole run may take."""
_AGAIN_S = 1.0
_INTERRUPTED = "OPERATION_CANCELED"


@contextmanager
def patient(session: SparkSession, seconds: float, what: str) -> Iterator[None]:
    """Interrupt what this thread still waits for on `session` after so many seconds, and all it asks from then on.

    An interrupted statement raises; `interrupted` tells. Statements of other threads run on.
    """
    tag, over = f"lakeward-{uuid4().hex}", Event()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            if wait == seconds:
                log.warning(f"{what}: no answer after {seconds:g} s: interrupted")
            wait = _AGAIN_S
            try:
                session.interruptTag(tag)
            except Exception as error:  # noqa: BLE001 - no server answers: whoever waits hears of it
                log.warning(f"{what}: could not be interrupted", error=type(error).__name__)

    session.addTag(tag)
    watcher = Thread(target=watch, daemon=True, name=f"patience-{what}")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        session.removeTag(tag)


def interrupted(error: Exception) -> bool:
    """Whether it says that a statement was interrupted."""
    return _INTERRUPTED in str(error)
