"""A checkpoint for a stream that cannot go on where it stopped: each start gets an empty one of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.engine.assignment import Assignment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)

SUFFIX = ".start"
"""Beside the stream's own folder: what an earlier generation kept there, of a source that resumes, stays."""


def begin(session: SparkSession, wanted: Assignment) -> Assignment:
    """The stream with an empty checkpoint; that of its last start is removed."""
    folder = wanted.checkpoint.rstrip("/") + SUFFIX
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    removed = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
    _log.info("stream begins anew", stream=wanted.stream, checkpoint=folder, removed=bool(removed))
    return replace(wanted, checkpoint=folder, known_query=None)
