"""Recomputation of the windowed stream: Spark's watermark rule in plain Python, applied to the same batches.

Spark 4's rule for one aggregation over event-time windows in append mode, batch by batch:

- the watermark of batch n is the largest event time seen in all batches before n, minus the delay; it never falls;
- a row of batch n is late when its window ended at or before the watermark of batch **n - 1**;
- at the end of batch n every window that ended at or before the watermark of batch n is written and dropped from state.

Batch boundaries decide which rows are late, so they are an input: the boundaries that the stream recorded. A batch
without data (Spark runs one when the watermark moved and no data waits) is an empty batch here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Event:
    """One row that reached the aggregation: event time in ms, its group, and the value the aggregates read."""

    time_ms: int
    group: str
    value: float | None


LATE_DEPARTURE_MIN = 15


@dataclass
class Aggregate:
    """Running figures of one window and group; nulls count as rows only, as in SQL."""

    rows: int = 0
    values: int = 0
    delayed: int = 0
    total: float = 0.0
    highest: float | None = None

    def add(self, value: float | None) -> None:
        """Add one row."""
        self.rows += 1
        if value is not None:
            self.values += 1
            self.total += value
            self.delayed += value > LATE_DEPARTURE_MIN
            self.highest = value if self.highest is None else max(self.highest, value)

    @property
    def figures(self) -> Figures:
        """The columns of the demo's `departures_hourly`: flights, departed, late, delay_minutes, worst_delay."""
        return self.rows, self.values, self.delayed, self.total if self.values else None, self.highest


Figures = tuple[int, int, int, float | None, float | None]

Key = tuple[int, str]
"""Start of the window in ms, group."""


@dataclass
class Expected:
    """The expected content of the table after these batches."""

    windows: dict[Key, Aggregate] = field(default_factory=dict)
    late_dropped: int = 0
    open_windows: int = 0
    watermark_ms: int = 0


def recompute(batches: Sequence[Iterable[Event]], *, width_ms: int, delay_ms: int) -> Expected:
    """Apply the rule to the batches, in order."""
    result = Expected()
    state: dict[Key, Aggregate] = {}
    previous = current = newest = 0
    for batch in batches:
        for event in batch:
            newest = max(newest, event.time_ms)
            start = event.time_ms // width_ms * width_ms
            if start + width_ms <= previous:
                result.late_dropped += 1
            else:
                state.setdefault((start, event.group), Aggregate()).add(event.value)
        for key in [key for key in state if key[0] + width_ms <= current]:
            result.windows[key] = state.pop(key)
        previous, current = current, max(current, newest - delay_ms)
    result.open_windows = len(state)
    result.watermark_ms = current
    return result
