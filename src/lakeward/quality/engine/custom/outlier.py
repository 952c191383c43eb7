"""Whether a value is as usual: a robust z-score against earlier ones. Pure.

The median and the median absolute deviation stand what a mean does not: a tenth of odd runs moves neither. The newest
value is judged by runs at the same hour of other days once there are enough of them (rows come by day and night), and
by the newest runs before. Whoever alarms too early is switched off: with too little history nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

_NORMAL = 1.4826  # what makes a median absolute deviation the standard deviation of normal noise
_LEAST_SPREAD = 0.05  # of the median: a table that was the same every time may change a little
_DAYS = 3  # other days with runs at this hour that make a season


@dataclass(frozen=True)
class Past:
    """A value and when it was found."""

    at: datetime
    value: float


@dataclass(frozen=True)
class Judged:
    """How far a value is from the usual.

    Attributes:
        spreads: signed; None while there is too little history.
        median, spread: of the history it was compared with.
        runs: how many values that were.
        hourly: whether they are those of the same hour of the day.
    """

    spreads: float | None
    median: float | None
    spread: float | None
    runs: int
    hourly: bool


def judge(value: float, at: datetime, past: Sequence[Past], *, runs: int, at_least: int) -> Judged:
    """Compare a value with earlier ones.

    Args:
        past: newest first; as far back as there is, for the season.
        runs: how many of the newest count where there is no season yet.
        at_least: values to compare with before anything is said.
    """
    same = [each for each in past if each.at.hour == at.hour and each.at.date() != at.date()]
    hourly = len(same) >= at_least and len({each.at.date() for each in same}) >= _DAYS
    values = [each.value for each in (same if hourly else past[:runs])]
    if len(values) < at_least:
        return Judged(None, None, None, len(values), hourly)
    middle = median(values)
    deviation = _NORMAL * median(abs(each - middle) for each in values)
    spread = max(deviation, _LEAST_SPREAD * abs(middle)) or 1.0
    return Judged((value - middle) / spread, middle, spread, len(values), hourly)
