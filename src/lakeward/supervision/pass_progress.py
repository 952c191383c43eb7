"""Progress of reconcile passes: that one began, which drivers it attended to, and that it finished.

A pass that is cut short (killed, out of time, out of memory) leaves its progress: the next one attends to the other
drivers first, so that a driver late in the order gets its turn on a machine where no pass comes to an end. And the
number of passes that began and did not finish says that supervision fails for lack of time (`supervision.relaunch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from lakeward.registry import heartbeats
from lakeward.supervision.decide.reconcile import Decision, Unstick

KEY = "reconcile-progress"
"""The heartbeat that holds it."""


@dataclass(frozen=True)
class Progress:
    """Where the passes are.

    Attributes:
        unfinished: the number of passes in a row that began and did not finish, the running one included.
        attended: drivers that these passes carried out a decision for.
        age_s: how long ago a pass began, made a step, or finished; None if none ever began.
    """

    unfinished: int = 0
    attended: tuple[str, ...] = ()
    age_s: float | None = None


def read(connection: Connection) -> Progress:
    """The progress as recorded."""
    newest = heartbeats.newest(connection, KEY)
    if newest is None:
        return Progress()
    unfinished, attended = newest.detail.get("unfinished"), newest.detail.get("attended")
    return Progress(
        unfinished if isinstance(unfinished, int) else 0,
        tuple(map(str, attended)) if isinstance(attended, list) else (),
        newest.age_s,
    )


def begin(connection: Connection) -> Progress:
    """Record that a pass begins; returns the progress with what earlier, unfinished passes did."""
    before = read(connection)
    now = Progress(before.unfinished + 1, before.attended, 0.0)
    _record(connection, now)
    return now


def step(connection: Connection, progress: Progress, driver: str) -> Progress:
    """Record that a decision for a driver was carried out."""
    now = Progress(progress.unfinished, tuple(dict.fromkeys((*progress.attended, driver))), 0.0)
    _record(connection, now)
    return now


def finish(connection: Connection) -> None:
    """Record that a pass finished: the next one begins again."""
    _record(connection, Progress())


def ordered(acts: Sequence[Decision], attended: Iterable[str]) -> list[Decision]:
    """The decisions in the order in which a pass carries them out; those of one driver keep theirs.

    Drivers that the passes before did not come to are first. Ending a hung driver, which takes up to half a minute,
    is behind the launches.
    """
    done = frozenset(attended)
    return sorted(acts, key=lambda item: (item.driver in done, isinstance(item, Unstick)))


def _record(connection: Connection, progress: Progress) -> None:
    heartbeats.record(connection, KEY, duration_s=0.0, unfinished=progress.unfinished, attended=list(progress.attended))
