"""Stable ids of Dags."""

from __future__ import annotations

RECONCILE = "streams_reconcile"
STREAM_PREFIX = "stream__"
SCHEDULE_PREFIX = "schedule__"
OBSERVE = "tables_observe"
MAINTAIN = "tables_maintain"
ORPHANS = "tables_orphans"
RESTORE = "tables_restore"
QUALITY = "quality_check"


def stream_dag_id(stream: str) -> str:
    """The id of a stream's Dag."""
    return f"{STREAM_PREFIX}{stream}"


def schedule_dag_id(stream: str) -> str:
    """The id of the Dag that starts a stream by its schedule."""
    return f"{SCHEDULE_PREFIX}{stream}"
