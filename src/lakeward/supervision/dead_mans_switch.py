"""Dead man's switch: an alarm when reconcile passes stop succeeding.

Every successful pass records a heartbeat. While there is nothing to do, no pass runs but the one of the schedule; the
watcher observes the streams in between and records that nothing was to be done (`supervision.quiet_pass`). Its
heartbeat counts as long as whole passes come by their schedule: one that is paused or broken is missing all the same.
The command line and `doctor` judge the age.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.registry import heartbeats
from lakeward.registry.heartbeats import Heartbeat

RECONCILE, QUIET, WATCHER = "reconcile", "reconcile-quiet", "watcher"
"""The heartbeats of whole passes, of quiet ones, and of the watcher as such."""
EVERY_S = 60.0
"""The interval at which the streams are observed, by a pass or by the watcher, in seconds."""
MISSED = 3
"""An alarm is raised after this many missed intervals in a row."""
SCHEDULE_S = 600.0
"""The interval of whole passes by their schedule, in seconds."""
WITHOUT_PASS_S = 2 * SCHEDULE_S + MISSED * EVERY_S
"""So long the watcher's word counts without any whole pass, in seconds."""


def judge(tick: Heartbeat | None, every_s: float = EVERY_S) -> str | None:
    """Why the streams are not supervised, or None. A deployment in which no pass ever ran is not judged."""
    if tick is None or tick.age_s <= MISSED * every_s:
        return None
    return f"{missing(tick)}: failed streams are not restarted, running streams continue"


def missing(tick: Heartbeat) -> str:
    """That no pass succeeded, and when one is expected, as a clause."""
    return (
        f"no reconcile pass has succeeded for {span(tick.age_s)} (one is due every {span(SCHEDULE_S)}, and within"
        f" {span(EVERY_S)} when there is something to do)"
    )


def newest(connection: Connection) -> Heartbeat | None:
    """The heartbeat of the newest successful pass; with the time of the newest quiet one, if that came later."""
    return latest(heartbeats.newest(connection, RECONCILE), heartbeats.newest(connection, QUIET))


def latest(whole: Heartbeat | None, quiet: Heartbeat | None) -> Heartbeat | None:
    """The heartbeat that counts, of whole and of quiet passes. Pure."""
    if whole is None or quiet is None or quiet.age_s >= whole.age_s or whole.age_s > WITHOUT_PASS_S:
        return whole
    return replace(whole, at=quiet.at, age_s=quiet.age_s)


def missed_passes(connection: Connection, every_s: float = EVERY_S) -> str | None:
    """Why the streams are not supervised, by the newest heartbeat; None if they are."""
    return judge(newest(connection), every_s)


NEXT = "lakeward stack status; then open the Dag streams_reconcile: is it paused, does its task fail?"
