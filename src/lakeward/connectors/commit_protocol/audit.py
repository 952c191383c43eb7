"""Is every record of the source in the table exactly once? Counted from positions in the table, never from counters.

Every landed row carries the position of its source record, so does every quarantined one. Between the stream's first
start and its position each record must be in exactly one of the two, or have been filtered by the transform.
Offsets are not records: a transaction's markers and compacted records leave holes in a topic, which are no losses.
The caller gives the number of records the source really has there (`records`) where a topic can have holes.
Reads three columns of the tables without a JVM; about 8 bytes of memory for each row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

_GAPS_SHOWN = 10
Partition = tuple[str, int]
"""(topic, partition)"""
Scan = Callable[[Sequence[str], str | None], Iterator[pa.RecordBatch]]
"""(topics, stream or None for all) -> the identity columns of a table's rows of these topics (and of this stream)."""


@dataclass(frozen=True)
class PartitionAudit:
    """One partition of a source; offsets `from_` (inclusive) to `to` (exclusive).

    Attributes:
        source, partition: source name and `topic/number`.
        records: records the source has in the range.
        landed, quarantined: distinct records found.
        skipped: records found nowhere that a person gave up.
        missing: other records found nowhere; None where the transform filters or rows were erased: then it cannot be
            told by partition.
        duplicates: rows landed beyond the first, and records that are both landed and in quarantine.
        beyond: records found outside the range: landed without being counted by the position.
        gaps: the first missing ranges, `(from, to)` exclusive; with holes in the topic also those.
    """

    source: str
    partition: str
    from_: int
    to: int
    records: int
    landed: int
    quarantined: int
    missing: int | None
    duplicates: int
    beyond: int
    gaps: tuple[tuple[int, int], ...] = ()
    skipped: int = 0


@dataclass(frozen=True)
class Audit:
    """A whole stream; see `PartitionAudit`. `missing` counts what no filter, skip or erase explains."""

    stream: str
    consumed: int
    landed: int
    quarantined: int
    filtered: int
    missing: int
    duplicates: int
    beyond: int
    partitions: tuple[PartitionAudit, ...]
    skipped: int = 0
    erased: int = 0

    @property
    def clean(self) -> bool:
        """Nothing lost, nothing doubled, nothing uncounted."""
        return self.missing == 0 and self.duplicates == 0 and self.beyond == 0


def audit(
    table: Scan,
    stream: str,
    position: Position,
    quarantine: Scan | None = None,
    records: Mapping[Partition, int] | None = None,
    erased: int = 0,
) -> Audit:
    """Audit a stream of lineage `rows` whose sources are Kafka topics.

    Two streams that read the same topic into the same table cannot be told apart and count as duplicates.

    Args:
        table: reads the sink, freshly loaded.
        position: the stream's, from the same load.
        quarantine: reads the quarantine table, freshly loaded after `table` so that it is not behind it.
        records: (topic, partition) -> records the source has between begin and end; default: one for each offset.
        erased: rows that were erased from both tables: which records they were is not kept.
    """
    begin, end = _partitions(position.begin), _partitions(position.end)
    source_of = {part: source for source, offset in position.end.items() for part in _offsets(offset)}
    topics = sorted({topic for topic, _ in end})
    landed = _collect(table(topics, None))
    aside = _collect(quarantine(topics, stream)) if quarantine is not None else {}
    filtered = position.totals.filtered
    given_up = _given_up(position)
    found = tuple(
        _partition(
            source_of[part],
            part,
            begin.get(part, 0),
            end[part],
            (records or {}).get(part),
            landed.get(part, _NONE),
            aside.get(part, _NONE),
            filtered == 0 and erased == 0,
            given_up.get(part, ()),
        )
        for part in sorted(end)
    )
    consumed = sum(each.records for each in found)
    accounted = sum(each.landed + each.quarantined for each in found)
    # A record both landed and put aside is one record; it stands in `duplicates` and must not hide a missing one.
    both = sum(_both(landed.get(part, _NONE), aside.get(part, _NONE)) for part in end)
    skipped = sum(each.skipped for each in found)
    return Audit(
        stream=stream,
        consumed=consumed,
        landed=sum(each.landed for each in found),
        quarantined=sum(each.quarantined for each in found),
        filtered=filtered,
        missing=consumed - (accounted - both) - filtered - skipped - erased,
        duplicates=sum(each.duplicates for each in found),
        beyond=sum(each.beyond for each in found),
        partitions=found,
        skipped=skipped,
        erased=erased,
    )


_NONE: pa.Array = pa.array([], pa.int64())


def _partition(
    source: str,
    part: Partition,
    start: int,
    to: int,
    records: int | None,
    landed: pa.Array,
    aside: pa.Array,
    unfiltered: bool,
    given_up: Sequence[tuple[int, int]] = (),
) -> PartitionAudit:
    distinct, put_aside = pc.unique(landed), pc.unique(aside)
    inside, aside_inside = _within(distinct, start, to), _within(put_aside, start, to)
    both = _both(inside, aside_inside)
    there = pc.unique(pa.concat_arrays([inside, aside_inside]))
    expected = records if records is not None else to - start
    gone = sum(
        max(0, min(high, to) - max(low, start)) - len(_within(there, max(low, start), min(high, to)))
        for low, high in given_up
    )
    skipped = max(0, min(gone, expected - len(there)))
    return PartitionAudit(
        source=source,
        partition=f"{part[0]}/{part[1]}",
        from_=start,
        to=to,
        records=expected,
        landed=len(inside),
        quarantined=len(aside_inside),
        missing=expected - len(there) - skipped if unfiltered else None,
        duplicates=len(landed) - len(distinct) + both,
        beyond=len(distinct) - len(inside) + len(put_aside) - len(aside_inside),
        gaps=_gaps(there, start, to, given_up) if unfiltered and len(there) != to - start else (),
        skipped=skipped,
    )


def _gaps(
    there: pa.Array, start: int, to: int, given_up: Sequence[tuple[int, int]] = ()
) -> tuple[tuple[int, int], ...]:
    """The first ranges of `start..to` that `there` (distinct, within) does not hold and nobody gave up."""
    ordered = there.take(pc.sort_indices(there))
    edges = pa.concat_arrays([pa.array([start - 1], pa.int64()), ordered, pa.array([to], pa.int64())])
    below, above = edges.slice(0, len(edges) - 1), edges.slice(1)
    apart = pc.greater(pc.subtract(above, below), 1)
    most = _GAPS_SHOWN * (len(given_up) + 1)
    found = zip(below.filter(apart)[:most].to_pylist(), above.filter(apart)[:most].to_pylist(), strict=True)
    left = [(low + 1, high) for low, high in found]
    for from_, until in given_up:
        left = [
            part
            for low, high in left
            for part in ((low, min(high, from_)), (max(low, until), high))
            if part[0] < part[1]
        ]
    return tuple(left[:_GAPS_SHOWN])


def _given_up(position: Position) -> dict[Partition, list[tuple[int, int]]]:
    """(topic, partition) -> the ranges a person gave up, none of which overlap."""
    found: dict[Partition, list[tuple[int, int]]] = {}
    for skip in position.skips:
        start = _partitions(skip.start)
        for part, until in _partitions(skip.end).items():
            found.setdefault(part, []).append((start.get(part, until), until))
    return found


def rows_between(
    table: Scan, start: Mapping[Partition, int], end: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """How many rows the table has of the records from `start` to `end`, and of how many records, by partition."""
    wanted = {part: (start[part], end[part]) for part in start if start[part] < end.get(part, 0)}
    if not wanted:
        return {}
    there = _collect(table(sorted({topic for topic, _ in wanted}), None))
    found = {part: _within(there.get(part, _NONE), low, high) for part, (low, high) in wanted.items()}
    return {part: (len(each), len(pc.unique(each))) for part, each in found.items()}


def _within(offsets: pa.Array, start: int, to: int) -> pa.Array:
    return offsets.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, to)))


def _both(one: pa.Array, other: pa.Array) -> int:
    return int(pc.sum(pc.is_in(pc.unique(one), value_set=pc.unique(other))).as_py() or 0)


def _collect(batches: Iterator[pa.RecordBatch]) -> dict[Partition, pa.Array]:
    """(topic, partition) -> all offsets found there, as often as they are found."""
    topic, partition, offset = IDENTITY_COLUMNS["kafka"]
    parts: dict[Partition, list[pa.Array]] = {}
    for batch in batches:
        names, numbers, offsets = batch.column(topic), batch.column(partition), batch.column(offset)
        for name in pc.unique(names).to_pylist():
            of_topic = pc.equal(names, name)
            for number in pc.unique(numbers.filter(of_topic)).to_pylist():
                here = offsets.filter(pc.and_(of_topic, pc.equal(numbers, number)))
                parts.setdefault((name, number), []).append(here.cast(pa.int64()))
    return {part: pa.concat_arrays(found) for part, found in parts.items()}


def _partitions(offsets: Mapping[str, str]) -> dict[Partition, int]:
    return {part: at for offset in offsets.values() for part, at in _offsets(offset).items()}


def _offsets(offset: str) -> dict[Partition, int]:
    """Kafka's `{topic: {partition: offset}}`; nothing for a source without data yet."""
    if offset == NO_DATA:
        return {}
    document: dict[str, dict[str, int]] = json.loads(offset)
    return {(topic, int(number)): at for topic, parts in document.items() for number, at in parts.items()}
