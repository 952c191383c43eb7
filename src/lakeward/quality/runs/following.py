"""Next step of the requester of a check run: wait, claim it, or give up. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lakeward.registry.check_runs import CLAIMS, REQUESTED, WORKING, Run

BEGUN_WITHIN_S = 30.0
"""A live checker has to start a run within this time; otherwise it is busy or hangs."""
TAKEN_WITHIN_S = 5.0
"""A live checker has to take over a run whose worker died within this time."""
GRACE_S = 60.0
"""A running run may report its own timeout within this time after its deadline."""

START = "lakeward stack up --only checker"


class Step(Enum):
    """The next step."""

    WAIT = "wait"
    TAKE = "take"
    ANSWERED = "answered"
    LATE = "late"
    LOST = "lost"


@dataclass(frozen=True)
class Next:
    """The next step, with the reason as a sentence for the log."""

    step: Step
    why: str = ""


def decide(run: Run | None, served: bool, patience: Callable[[float], float] = lambda seconds: seconds) -> Next:
    """Decide the next step.

    Args:
        run: as in the registry; None when its row is missing.
        served: whether a checker of this project and lake is alive.
        patience: how long a limit is now. Beside a live checker a process of one's own, which costs many CPU-seconds to
            start, is the last thing that a starved machine needs.
    """
    if run is None:
        return Next(Step.LOST, "its row is missing from the registry")
    if run.answer is not None:
        return Next(Step.ANSWERED)
    if run.remaining_s < (-GRACE_S if run.state == WORKING else 0):
        return Next(Step.LATE, f"it was {'at work' if run.state == WORKING else 'waiting'} for {run.waited_s:.0f} s")
    idle = run.state == REQUESTED or run.expired_s is not None
    if idle and run.claim >= CLAIMS:
        return Next(Step.LOST, f"it was started {run.claim} times, and each process ended, last {run.owner}")
    if not idle:
        return Next(Step.WAIT)
    if not served:
        died = f"{run.owner} died during this run, and " if run.claim else ""
        return Next(Step.TAKE, f"{died}no checker is up: this run starts a process of its own, slower; next: {START}")
    if run.expired_s is not None and run.expired_s > patience(TAKEN_WITHIN_S):
        return Next(Step.TAKE, f"{run.owner} died during this run: it continues in a process of its own, slower")
    if run.state == REQUESTED and run.waited_s > patience(BEGUN_WITHIN_S):
        return Next(
            Step.TAKE,
            f"the checker has not started this run for {run.waited_s:.0f} s, it is busy with another: this run starts "
            "a process of its own, slower; next: lakeward stack status",
        )
    return Next(Step.WAIT)
