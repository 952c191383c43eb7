"""Stuck driver: whether a driver that is alive has to be ended because it makes no progress. Pure.

The driver watches its own queries: it distinguishes a slow batch from a hung one, interrupts a hung batch, writes a
thread dump, and restarts that query. This module judges a driver whose control loop itself hangs, so that it cannot do
that. Its heartbeat, which comes from another thread, reports `stuck`.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.platform.text import count, span
from lakeward.registry.drivers import STUCK
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import HealthInput, waited_s


def stuck(sights: Iterable[HealthInput]) -> str | None:
    """Why a driver has to be ended, from its first stream without progress; or None.

    A driver is left alone while one of its streams has landed a batch recently.
    """
    worst: str | None = None
    for inputs in sights:
        if _landing(inputs):
            return None
        why = _why(inputs)
        if why is not None and worst is None:
            worst = why
    return worst


def _why(inputs: HealthInput) -> str | None:
    stream, driver, seen = inputs.stream, inputs.driver, inputs.observation
    if stream.desired != "running" or stream.blocked is not None or inputs.down is not None:
        return None
    if driver is None or driver.handle is None or driver.state != STUCK or inputs.process is not Life.ALIVE:
        return None
    if stream.run_after is not None and stream.run_after > inputs.now:
        return None
    if seen is None or seen.at < driver.launched_at or seen.query_state not in ("running", "idle"):
        return None  # it does not run: the driver decides when to start it
    if not seen.least_records:
        return None  # nothing waits, or the lag is not known: silence is no proof
    commit = seen.commit_age_s if seen.commit_age_s is not None else driver.launched_s
    failed = inputs.failure.age_s if inputs.failure is not None else float("inf")
    quiet = min(commit, driver.launched_s, failed, waited_s(seen))
    if quiet <= inputs.stall_after_s:
        return None
    waits = ("at least " if seen.lag_records is None else "") + count(seen.least_records, "record")
    return f"no batch of {stream.id} for {span(quiet)} while {waits} wait (hung batch)"


def _landing(inputs: HealthInput) -> bool:
    seen, driver = inputs.observation, inputs.driver
    if seen is None or driver is None or seen.commit_age_s is None:
        return False
    return seen.commit_age_s < min(inputs.stall_after_s, driver.launched_s)
