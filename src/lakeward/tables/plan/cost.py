"""Estimates the duration of an action on a table: learned from its runs, with a prior until there are any.

A duration is a start time (session, plan, commit) and a rate. The prior counts as one run, so that the first measured
runs shift the estimate moderately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

RUNS: Final = 20  # newest runs of an action that are used: older ones are of another table size or machine


@dataclass(frozen=True)
class Pace:
    """The duration of an action.

    Attributes:
        start_s: seconds that do not depend on the amount.
        per_second: bytes (compact), or delete files, manifests, snapshots or metadata files a second beyond that.
        runs: number of runs it was learned from; 0: the prior.
    """

    start_s: float
    per_second: float
    runs: int = 0

    def seconds(self, amount: float) -> float:
        """Expected seconds for this amount of bytes, manifests or snapshots."""
        return self.start_s + amount / self.per_second

    def amount(self, seconds: float) -> float:
        """Expected amount in this many seconds."""
        return max(seconds - self.start_s, 0.0) * self.per_second


PRIORS: Final[Mapping[str, Pace]] = {
    "compact": Pace(2.0, 8 * 1024**2),  # Spark's published rate on one core
    "deletes": Pace(1.0, 50.0),
    "manifests": Pace(1.0, 100.0),
    "tags": Pace(1.0, 50.0),
    "expire": Pace(1.0, 50.0),
    "metadata": Pace(1.0, 50.0),
}
_PRIOR_RUN: Final[Mapping[str, float]] = {
    "compact": 256 * 1024**2,
    "deletes": 100.0,
    "manifests": 200.0,
    "tags": 100.0,
    "expire": 100.0,
    "metadata": 100.0,
}


def learn(action: str, runs: Iterable[tuple[float, float]]) -> Pace:
    """The pace of an action from its runs, newest first, each (amount, seconds); runs without an amount are ignored.

    The rate is the total amount over the total time, not a mean of rates: a tiny run says little about a large one.
    """
    prior, weight = PRIORS[action], _PRIOR_RUN[action]
    seen = [(amount, seconds) for amount, seconds in runs if amount > 0 and seconds > 0][:RUNS]
    if not seen:
        return prior
    amount = weight + sum(each for each, _ in seen)
    seconds = weight / prior.per_second + sum(max(each - prior.start_s, 0.0) for _, each in seen)
    return Pace(prior.start_s, amount / seconds, len(seen))


def pace(action: str, known: Mapping[str, Pace]) -> Pace:
    """The pace learned for an action, or its prior."""
    return known.get(action) or PRIORS[action]
