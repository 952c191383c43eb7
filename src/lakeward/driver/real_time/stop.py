"""Stopping a query without batches, whatever it is doing."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CANCEL_AGAIN_S = 1.0
"""How long Spark's own cancelling is waited for before the query's job is cancelled once more."""


def halt(query: StreamingQuery, session: SparkSession) -> None:
    """Stop a query, also one that has only just begun.

    Spark cancels the query's job once and then waits for its thread. A job that begins a moment after that is cancelled
    by nobody, and in continuous processing it never ends: so it is cancelled again until the stop is through.
    """
    from pyspark.util import InheritableThread

    over = threading.Event()

    def cancel() -> None:
        while not over.wait(CANCEL_AGAIN_S):
            with suppress(Exception):  # the query is over, or the JVM: then `stop` says so
                session.sparkContext.cancelJobGroup(str(query.runId))

    InheritableThread(target=cancel, session=session, daemon=True, name=f"halt-{query.name}").start()
    try:
        query.stop()
    finally:
        over.set()
