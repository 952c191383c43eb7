"""Spark's reports of a query, handed on. Called in the JVM's own callback: it only leaves them with the recorder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeward.driver.recorder import Recorder

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener


def listener_of(stream: str, recorder: Recorder) -> StreamingQueryListener:
    """A listener for the session of one stream."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):  # the base class comes with pyspark, which is imported here and not above
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
            # How much waited for an earlier query says nothing of this one: the lag is measured anew.
            known = {"query_state": "running", "error": None, "lag_records": None, "lag_s": None}
            recorder.note(stream, query_id=str(event.id), run_id=str(event.runId), **known)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
            recorder.note_progress(stream, json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
            recorder.note(stream, query_state="idle")

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
            return None  # the control loop sees the end itself, with the exception

    return Listener()
