"""Listener for Spark's query events. It runs in the JVM's callback thread and queues them for the recorder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeward.driver.core_time import CoreTime
from lakeward.driver.recorder import Recorder

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener


def listener_of(stream: str, recorder: Recorder, spent: CoreTime) -> StreamingQueryListener:
    """A listener for the session of one stream."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):  # pyspark is imported here, not at module level
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
            # The lag of an earlier query does not apply to this one: it is measured again.
            known = {"query_state": "running", "error": None, "lag_records": None, "lag_s": None}
            recorder.note(stream, query_id=str(event.id), run_id=str(event.runId), **known)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
            progress = json.loads(event.progress.json)
            recorder.note_progress(stream, progress, spent.since_last(progress["runId"]))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
            recorder.note(stream, query_state="idle")

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
            return None  # the control loop detects the end itself, with the exception

    return Listener()
