"""Thrash: suspend automatic restarts while many streams fail at once, because restarts then hide the cause. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakeward.platform.failures import Cause, FailureClass
from lakeward.platform.text import listed

WINDOW = timedelta(seconds=60)
LEAST_STREAMS = 5
SHARE = 0.3
LEAST_FAILURES = 3
"""A shared driver that dies is one failure of many streams, and no thrash."""
PAUSE = timedelta(minutes=2)
"""How long automatic restarts are suspended. A start by a person is not."""

_EXPLAINED = frozenset({FailureClass.DEPENDENCY, FailureClass.FENCED})


@dataclass(frozen=True)
class Fall:
    """One failure of the last minute: of a stream, or (`stream` None) of a whole driver."""

    driver: str
    stream: str | None
    failure_class: str
    cause: Cause | None = None


def judge(falls: Sequence[Fall], hosted: Mapping[str, Collection[str]], explained: Collection[str]) -> str | None:
    """Why automatic restarts are to be suspended now, or None.

    Args:
        falls: the failures within `WINDOW`.
        hosted: driver -> its streams that should run.
        explained: streams whose dependency is known to be down.
    """
    running = {stream for streams in hosted.values() for stream in streams}
    if len(running) < LEAST_STREAMS:
        return None
    failed: set[str] = set()
    units: set[tuple[str, str | None]] = set()
    for fall in falls:
        if fall.failure_class in _EXPLAINED or fall.cause is Cause.REBOOT:
            continue
        affected = ({fall.stream} if fall.stream is not None else set(hosted.get(fall.driver, ()))) & running
        affected -= set(explained)
        if affected:
            failed |= affected
            units.add((fall.driver, fall.stream))
    if len(units) < LEAST_FAILURES or len(failed) <= SHARE * len(running):
        return None
    return (
        f"{len(failed)} of {len(running)} streams failed within {WINDOW.total_seconds():.0f} s"
        f" ({listed(sorted(failed))})"
    )
