"""Dead man's switch: an alarm when reconcile passes stop succeeding.

Every successful pass records a heartbeat. The watcher, the command line and `doctor` judge its age.
"""

from __future__ import annotations

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.registry import heartbeats
from lakeward.registry.heartbeats import Heartbeat

RECONCILE = "reconcile"
EVERY_S = 60.0
MISSED = 3
"""An alarm is raised after this many missed passes in a row."""


def judge(tick: Heartbeat | None, every_s: float = EVERY_S) -> str | None:
    """Why the streams are not supervised, or None. A deployment in which no pass ever ran is not judged."""
    if tick is None or tick.age_s <= MISSED * every_s:
        return None
    return (
        f"no reconcile pass has succeeded for {span(tick.age_s)} (one is due every {span(every_s)}): failed streams are"
        f" not restarted, running streams continue"
    )


def newest(connection: Connection) -> Heartbeat | None:
    """The heartbeat of the newest successful pass."""
    return heartbeats.newest(connection, RECONCILE)


def missed_passes(connection: Connection, every_s: float = EVERY_S) -> str | None:
    """Why the streams are not supervised, by the newest heartbeat; None if they are."""
    return judge(newest(connection), every_s)


NEXT = "lakeward stack status; then open the Dag streams_reconcile: is it paused, does its task fail?"
