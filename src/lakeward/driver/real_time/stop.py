"""Stop of a real-time query in any state."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CANCEL_AGAIN_S = 1.0
"""Interval at which the query's job is cancelled again."""


def halt(query: StreamingQuery, session: SparkSession) -> None:
    """Stop a query, also one that has only just begun.

    Spark cancels the query's job once and then waits for its thread. A job that begins after that is not cancelled, and
    in continuous processing it never ends. So the job is cancelled again until the stop has returned.
    """
    from pyspark.util import InheritableThread

    over = threading.Event()

    def cancel() -> None:
        while not over.wait(CANCEL_AGAIN_S):
            with suppress(Exception):  # the query or the JVM has ended: then `stop` returns or raises
                session.sparkContext.cancelJobGroup(str(query.runId))

    InheritableThread(target=cancel, session=session, daemon=True, name=f"halt-{query.name}").start()
    try:
        query.stop()
    finally:
        over.set()
