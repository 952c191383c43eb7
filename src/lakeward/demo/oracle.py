"""Oracle of the demo: derives the expected rows from the broker alone, and compares them with the tables.

It reads the topics, the source positions of the tables through PyIceberg, and the recorded batch boundaries. It uses no
counter of a stream.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeward.demo.broker import Message, Position
from lakeward.demo.windows import Event, Expected, Figures, Key

TOLERANCE = 1e-6  # the order of summation differs from Spark's


@dataclass(frozen=True)
class Accounting:
    """Source positions compared: every position of the broker must be landed or quarantined, exactly once."""

    produced: int
    landed: int
    quarantined: int
    missing: tuple[Position, ...]
    duplicates: int
    foreign: int
    """Number of positions in a table that the broker does not have."""

    @property
    def exact(self) -> bool:
        """Whether nothing is missing, duplicated or foreign."""
        return not (self.missing or self.duplicates or self.foreign)


def account(broker: Iterable[Position], landed: Sequence[Position], quarantined: Sequence[Position]) -> Accounting:
    """Compare the broker's positions with those of the tables. A record in both tables is a duplicate, too."""
    produced = set(broker)
    stored = Counter(landed)
    stored.update(quarantined)
    return Accounting(
        produced=len(produced),
        landed=len(landed),
        quarantined=len(quarantined),
        missing=tuple(sorted(produced - stored.keys(), key=lambda item: (item.partition, item.offset))),
        duplicates=sum(count - 1 for count in stored.values()),
        foreign=len(stored.keys() - produced),
    )


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "STRING": (str, int, float, bool, dict, list),  # Spark reads any JSON value of a STRING column as text
    "INT": (int,),
    "BIGINT": (int,),
    "SMALLINT": (int,),
    "DOUBLE": (int, float),
    "FLOAT": (int, float),
    "BOOLEAN": (bool,),
}


def decode(value: bytes | None, columns: Mapping[str, str]) -> dict[str, Any] | None:
    """The row that `decode: {json: ...}` must produce, or None if the record must go to quarantine.

    Args:
        columns: declared column -> Spark type, upper case.

    Returns:
        The declared columns; absent ones and JSON nulls are None, times are aware datetimes.
    """
    if not value:
        return None
    try:
        document = json.loads(value.decode("utf-8"))
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    row: dict[str, Any] = {}
    for column, kind in columns.items():
        given = document.get(column)
        if given is not None:
            if kind.startswith("TIMESTAMP"):
                try:
                    given = datetime.fromisoformat(given)
                except (TypeError, ValueError):
                    return None
            elif kind in _JSON_TYPES and (
                not isinstance(given, _JSON_TYPES[kind]) or (isinstance(given, bool) and bool not in _JSON_TYPES[kind])
            ):
                return None
        row[column] = given
    return row


@dataclass(frozen=True)
class BatchRange:
    """A recorded batch: start offset (inclusive) and end offset (exclusive) by partition."""

    batch_id: int
    start: Mapping[int, int]
    end: Mapping[int, int]
    committed_at: datetime | None = None


def contiguous(recorded: Sequence[BatchRange], low: Mapping[int, int]) -> list[BatchRange]:
    """The batches in order, each starting at the end of the previous one; unrecorded batches without data are empty.

    A missing record of a batch leaves a gap in the offsets; a single missing batch number gets the whole gap.

    Raises:
        ValueError: a gap spans several batches, or batches overlap: the recorded boundaries are no evidence.
    """
    result: list[BatchRange] = []
    at = dict(low)
    for batch in sorted(recorded, key=lambda item: item.batch_id):
        start = {part: batch.start.get(part, at.get(part, 0)) for part in batch.end}
        absent = range(len(result), batch.batch_id)
        moved = {part: offset for part, offset in start.items() if offset != at.get(part, 0)}
        if any(offset < at.get(part, 0) for part, offset in moved.items()):
            raise ValueError(f"batch {batch.batch_id} begins at {dict(start)}, before the end {at} of the one before")
        if moved and len(absent) != 1:
            raise ValueError(f"batch {batch.batch_id} begins at {dict(start)}, the one before ended at {at}")
        for number in absent:
            result.append(BatchRange(number, dict(at), {**at, **start}))
            at |= start
        result.append(BatchRange(batch.batch_id, {**at, **start}, {**at, **batch.end}, batch.committed_at))
        at |= batch.end
    return result


def events_of(
    batches: Sequence[BatchRange],
    messages: Mapping[int, Sequence[Message]],
    event: Callable[[Message], Event | None],
) -> list[list[Event]]:
    """The rows of each batch that reach the aggregation, in offset order.

    Args:
        messages: partition -> its messages by rising offset.
        event: converts a message to an event; None if it cannot be decoded.
    """
    result: list[list[Event]] = []
    cursor = dict.fromkeys(messages, 0)
    for batch in batches:
        rows: list[Event] = []
        for part, end in batch.end.items():
            line = messages.get(part, ())
            at = cursor.get(part, 0)
            while at < len(line) and line[at].position.offset < end:
                row = event(line[at])
                if row is not None:
                    rows.append(row)
                at += 1
            cursor[part] = at
        result.append(rows)
    return result


@dataclass(frozen=True)
class WindowRow:
    """One row of the windowed table."""

    key: Key
    figures: Figures


@dataclass(frozen=True)
class WindowVerdict:
    """The comparison of the windowed table with its recomputation."""

    expected: int
    found: int
    mismatched: tuple[tuple[Key, str], ...] = field(default_factory=tuple)


def compare_windows(expected: Expected, stored: Sequence[WindowRow]) -> WindowVerdict:
    """Compare: every expected window exactly once with equal figures, and no other window."""
    wrong: dict[Key, str] = {}
    times = Counter(row.key for row in stored)
    by_key = {row.key: row for row in stored}
    for key, must in expected.windows.items():
        row = by_key.get(key)
        if row is None:
            wrong[key] = f"missing: {must.rows} rows"
        elif not all(_close(left, right) for left, right in zip(row.figures, must.figures, strict=True)):
            wrong[key] = f"says {row.figures}, must be {must.figures}"
    for key, count in times.items():
        if key not in expected.windows:
            wrong[key] = "written, but not closed by the late rule"
        elif count > 1:
            wrong[key] = f"written {count} times"
    return WindowVerdict(len(expected.windows), len(stored), tuple(sorted(wrong.items())))


def _close(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) <= TOLERANCE * max(1.0, abs(left), abs(right))


def p99(values: Sequence[float]) -> float | None:
    """The 99th percentile (nearest rank), None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-99 * len(ordered) // 100) - 1)]


def freshness(batches: Sequence[BatchRange], messages: Mapping[int, Sequence[Message]]) -> list[float]:
    """Seconds from a record's own time to the commit of the batch that landed it, for every record of the batches."""
    result: list[float] = []
    cursor = dict.fromkeys(messages, 0)
    for batch in batches:
        for part, end in batch.end.items():
            line, at = messages.get(part, ()), cursor.get(part, 0)
            while at < len(line) and line[at].position.offset < end:
                if batch.committed_at is not None:
                    result.append(max(0.0, batch.committed_at.timestamp() - line[at].timestamp_ms / 1000))
                at += 1
            cursor[part] = at
    return result
