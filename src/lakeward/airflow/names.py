"""Stable ids of Dags."""

from __future__ import annotations

STREAM_PREFIX = "stream__"


def stream_dag_id(stream: str) -> str:
    """The id of a stream's Dag."""
    return f"{STREAM_PREFIX}{stream}"
