"""Dead man's switch: a reconcile pass that stays away says nothing, so its silence has to be somebody's alarm.

Every successful pass leaves a tick. Whoever else looks (the watcher, the command line, doctor) judges its age.
"""

from __future__ import annotations

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.registry import heartbeats
from lakeward.registry.heartbeats import Heartbeat

RECONCILE = "reconcile"
EVERY_S = 60.0
MISSED = 3
"""Passes in a row that may stay away before it is an alarm."""


def judge(tick: Heartbeat | None, every_s: float = EVERY_S) -> str | None:
    """Why nobody looks after the streams, or None. A deployment in which no pass ever ran is not judged."""
    if tick is None or tick.age_s <= MISSED * every_s:
        return None
    return (
        f"no reconcile pass has succeeded for {span(tick.age_s)} (one is due every {span(every_s)}): what fails is not"
        f" restarted, streams that run land on"
    )


def newest(connection: Connection) -> Heartbeat | None:
    """The newest pass that succeeded."""
    return heartbeats.newest(connection, RECONCILE)


def look(connection: Connection, every_s: float = EVERY_S) -> str | None:
    """The judgement about the newest pass."""
    return judge(newest(connection), every_s)


NEXT = "lakeward stack status; then open the Dag streams_reconcile: is it paused, does its task fail?"
