"""Timeout of checks: a statement without an answer is interrupted, and its check becomes an error."""

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
"""For all checks that read the same rows; half of the timeout of a whole run."""
_AGAIN_S = 1.0
_INTERRUPTED = "OPERATION_CANCELED"


@contextmanager
def patient(session: SparkSession, seconds: float, what: str) -> Iterator[None]:
    """Interrupt this thread's statements on `session` after so many seconds, and every later one in this block.

    An interrupted statement raises; `interrupted` recognizes it. Statements of other threads continue.
    """
    tag, over = f"lakeward-{uuid4().hex}", Event()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            if wait == seconds:
                log.warning("Checks timed out; statements interrupted", table=what, timeout_s=seconds)
            wait = _AGAIN_S
            try:
                session.interruptTag(tag)
            except Exception as error:  # noqa: BLE001 - no server answers: the waiting statement raises too
                log.warning("Interrupting statements failed", table=what, error=type(error).__name__)

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
    """Whether the error means that a statement was interrupted."""
    return _INTERRUPTED in str(error)
