"""Outlier test: a robust z-score against earlier values. Pure.

The median and the median absolute deviation resist outliers: a tenth of odd runs changes neither. The newest value is
compared with runs at the same hour of other days if there are enough of them (rows come by day and night), else with
the newest runs. With too little history no verdict is given, because early false alarms get a check switched off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

_NORMAL = 1.4826  # scales a median absolute deviation to the standard deviation of normal noise
_LEAST_SPREAD = 0.05  # share of the median: tolerance for a table that never varied
_DAYS = 3  # other days with runs at this hour that are needed for a seasonal comparison


@dataclass(frozen=True)
class Past:
    """An earlier value and its time."""

    at: datetime
    value: float


@dataclass(frozen=True)
class OutlierScore:
    """The distance of a value from the usual.

    Attributes:
        spreads: signed; None while there is too little history.
        median, spread: of the history it was compared with.
        runs: the number of values in that history.
        hourly: whether that history is of the same hour of the day.
    """

    spreads: float | None
    median: float | None
    spread: float | None
    runs: int
    hourly: bool


def judge(value: float, at: datetime, past: Sequence[Past], *, runs: int, at_least: int) -> OutlierScore:
    """Compare a value with earlier ones.

    Args:
        past: newest first; all of it, for the seasonal comparison.
        runs: the number of newest values used without a seasonal comparison.
        at_least: the number of values needed for a verdict.
    """
    same = [value for value in past if value.at.hour == at.hour and value.at.date() != at.date()]
    hourly = len(same) >= at_least and len({value.at.date() for value in same}) >= _DAYS
    values = [value.value for value in (same if hourly else past[:runs])]
    if len(values) < at_least:
        return OutlierScore(None, None, None, len(values), hourly)
    middle = median(values)
    deviation = _NORMAL * median(abs(each - middle) for each in values)
    spread = max(deviation, _LEAST_SPREAD * abs(middle)) or 1.0
    return OutlierScore((value - middle) / spread, middle, spread, len(values), hourly)
