"""Fresh checkpoints: a stream whose source cannot resume gets an empty checkpoint at each start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.engine.assignment import Assignment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)

SUFFIX = ".start"
"""Suffix of the folder. A checkpoint of an earlier generation, whose source resumes, is kept beside it."""


def begin(session: SparkSession, assignment: Assignment) -> Assignment:
    """Give the stream an empty checkpoint, and remove that of its previous start."""
    folder = assignment.checkpoint.rstrip("/") + SUFFIX
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    removed = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
    _log.info("fresh checkpoint", stream=assignment.stream, checkpoint=folder, removed=bool(removed))
    return replace(assignment, checkpoint=folder, known_query=None)
