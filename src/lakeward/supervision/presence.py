"""Whether anybody supervises the streams: whether reconcile passes succeed, and if not, since when and why.

Supervision is missing in three ways that look alike to a stream: the project has no Dag that reconciles, that Dag is
paused or broken, or its passes do not come to an end. The registry knows when a pass last succeeded. Who can see more
(the project folder, Airflow) adds it, and the answer names the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from sqlalchemy import Connection, func, select

from lakeward.platform.runtime import Project
from lakeward.registry import streams
from lakeward.registry.heartbeats import Heartbeat
from lakeward.supervision import dead_mans_switch

WITHIN_S = dead_mans_switch.MISSED * dead_mans_switch.EVERY_S
"""No successful pass for this long, in seconds, is missing supervision."""
NEVER_NEXT = "lakeward stack status; then open the Dag streams_reconcile in Airflow: does it exist, is it paused?"


class State(StrEnum):
    """Whether the streams are supervised."""

    OK = "ok"  # a pass succeeded within WITHIN_S, or no stream is to run
    AWAITED = "awaited"  # no pass yet, and the streams are to run for less than WITHIN_S
    NEVER = "never"  # no pass ever succeeded
    STALE = "stale"  # the newest pass is older than WITHIN_S


@dataclass(frozen=True)
class Presence:
    """The answer.

    Attributes:
        since: the newest successful pass; where there was none, since when a stream is to run. None if no stream is.
        why: one sentence without its full stop, with the consequence; empty where the state is `ok`.
        next: the command, or what to look at; empty where the state is `ok`.
    """

    state: State
    since: datetime | None = None
    why: str = ""
    next: str = ""

    @property
    def missing(self) -> bool:
        """Whether the streams are not supervised."""
        return self.state in (State.NEVER, State.STALE)


def supervision_present(
    newest: Heartbeat | None,
    running_since: datetime | None,
    now: datetime,
    *,
    dags: Path | None = None,
    paused: bool | None = None,
) -> Presence:
    """Judge whether the streams are supervised.

    Args:
        newest: the newest successful pass (`dead_mans_switch.newest`).
        running_since: since when the first of the streams that should run is to run; None if none is.
        now: the database's time.
        dags: the folder of the project that should have the Dags, if the caller knows the project.
        paused: whether the Dag `streams_reconcile` is paused; None if Airflow was not asked.
    """
    if newest is not None and newest.age_s <= WITHIN_S and not paused:
        return Presence(State.OK, newest.at)
    if newest is None and running_since is None:
        return Presence(State.OK)
    cause, remedy = _cause(dags, paused)
    if newest is not None:
        why = dead_mans_switch.missing(newest)
        if newest.age_s <= WITHIN_S:
            why = "no reconcile pass runs any more"
        consequence = "failed streams are not restarted, running streams continue"
        return Presence(State.STALE, newest.at, f"{why}{cause}: {consequence}", remedy or dead_mans_switch.NEXT)
    waited_s = (now - running_since).total_seconds() if running_since is not None else 0.0
    if waited_s <= WITHIN_S and not cause:
        return Presence(
            State.AWAITED, running_since, "no reconcile pass has succeeded yet; the first is due", NEVER_NEXT
        )
    why = f"no reconcile pass has ever succeeded{cause}: no stream is started or restarted"
    return Presence(State.NEVER, running_since, why, remedy or NEVER_NEXT)


def _cause(dags: Path | None, paused: bool | None) -> tuple[str, str]:
    """What the caller sees: (the cause with its comma, the next step); empty where nothing is known."""
    if dags is not None and not any(dags.glob("**/*.py")):
        return (
            f", because {dags} has no Dag file",
            f"put lakeward_streams.py into {dags} (lakeward init writes it into an empty folder)",
        )
    if paused:
        return ", because the Dag streams_reconcile is paused", "unpause the Dag streams_reconcile in Airflow"
    return "", ""


def read(connection: Connection, project: Project | None = None, *, paused: bool | None = None) -> Presence:
    """`supervision_present` with the facts of the registry, and those of the project if it is given."""
    running = [row.since for row in streams.all_streams(connection) if row.desired == "running" and row.blocked is None]
    now = connection.execute(select(func.now())).scalar_one()
    return supervision_present(
        dead_mans_switch.newest(connection),
        min(running, default=None),
        now,
        dags=None if project is None else project.dags,
        paused=paused,
    )
