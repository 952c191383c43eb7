"""The exactly-once audit: checks that every source record is in the table once, by the rows' source positions.

It does not use counters. Every landed row and every quarantined row carries the position of its source record. Between
the stream's first start and its position, each record must be in exactly one of the two tables, or be filtered by the
transform. Offsets are not records: transaction markers and compacted records leave holes in a topic, which are not
losses. Where offsets are in neither table, the caller's `lookup` reads the source to tell records from such holes.
The audit reads three columns of the tables without a JVM, with about 8 bytes of memory for each row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.kafka.records import Partition, Records, Span
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

_GAPS_SHOWN = 10
Lookup = Callable[[Mapping[Partition, Sequence[Span]]], Mapping[Partition, Records]]
"""Ranges of offsets in neither table, by partition -> the records that the source has there, for each of them."""
Scan = Callable[[Sequence[str], str | None], Iterator[pa.RecordBatch]]
"""(topics, stream or None for all) -> the identity columns of a table's rows of these topics (and of this stream)."""


@dataclass(frozen=True)
class PartitionAudit:
    """One partition of a source; offsets `from_` (inclusive) to `to` (exclusive).

    Attributes:
        source, partition: source name and `topic/number`.
        records: records the source has in the range.
        landed, quarantined: distinct records in each table.
        skipped: records in neither table that a person skipped.
        missing: other records in neither table; None where the transform filters or rows were erased: then it is
            not known by partition.
        duplicates: further rows of a landed record, and records that are both landed and in quarantine.
        beyond: records outside the range: landed, but not counted by the position.
        gaps: the first missing ranges, `(from, to)` exclusive; without `lookup` they include holes in the topic.
        holes: offsets without a record: transaction markers, aborted and compacted records.
        unverified: offsets in neither table that the source no longer has; they may be holes.
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
    gaps: tuple[Span, ...] = ()
    skipped: int = 0
    holes: int = 0
    unverified: int = 0


@dataclass(frozen=True)
class Audit:
    """The audit of a whole stream; see `PartitionAudit`. `missing`: records that no filter, skip or erase explains.

    Of the `unverified` offsets those count as missing for which the batches counted a record. Records that a reset read
    again are counted by the batches twice: they may be reported as missing.
    """

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
    holes: int = 0
    unverified: int = 0

    @property
    def clean(self) -> bool:
        """Whether no record is missing, duplicated or uncounted."""
        return self.missing == 0 and self.duplicates == 0 and self.beyond == 0


def audit(
    table: Scan,
    stream: str,
    position: Position,
    quarantine: Scan | None = None,
    records: Mapping[Partition, int] | None = None,
    erased: int = 0,
    lookup: Lookup | None = None,
) -> Audit:
    """Audit a stream of lineage `rows` whose sources are Kafka topics.

    Two streams that read the same topic into the same table cannot be distinguished and count as duplicates.

    Args:
        table: reads the sink, freshly loaded.
        position: the stream's, from the same load.
        quarantine: reads the quarantine table, loaded after `table`, so that it is at least as new.
        records: (topic, partition) -> records the source has between begin and end; default: one for each offset.
        erased: rows that were erased from both tables; their positions are not stored.
        lookup: reads the source where offsets are in neither table; instead of `records`.
    """
    begin, end = _partitions(position.begin), _partitions(position.end)
    source_of = {part: source for source, offset in position.end.items() for part in _offsets(offset)}
    topics = sorted({topic for topic, _ in end})
    landed = _collect(table(topics, None))
    quarantined = _collect(quarantine(topics, stream)) if quarantine is not None else {}
    filtered = position.totals.filtered
    skips = _skipped_ranges(position)
    unfiltered = filtered == 0 and erased == 0
    partitions = tuple(
        _partition(
            source_of[part],
            part,
            begin.get(part, 0),
            end[part],
            (records or {}).get(part),
            landed.get(part, _NONE),
            quarantined.get(part, _NONE),
            unfiltered,
            skips.get(part, ()),
        )
        for part in sorted(end)
    )
    found: Mapping[Partition, Records] = {}
    if lookup is not None:
        absent = {
            part: _absent(_present(landed.get(part, _NONE), quarantined.get(part, _NONE), start, to), start, to)
            for part, to in end.items()
            for start in [begin.get(part, 0)]
        }
        absent = {part: spans for part, spans in absent.items() if spans}
        found = lookup(absent) if absent else {}
        partitions = tuple(
            _explained(counted, absent[part], found[part], skips.get(part, ())) if part in absent else counted
            for part, counted in zip(sorted(end), partitions, strict=True)
        )
    consumed = sum(partition.records for partition in partitions)
    accounted = sum(partition.landed + partition.quarantined for partition in partitions)
    # A record both landed and quarantined is one record; `duplicates` counts it, and it must not hide a missing one.
    both = sum(_both(landed.get(part, _NONE), quarantined.get(part, _NONE)) for part in end)
    skipped = sum(partition.skipped for partition in partitions)
    unverified = sum(partition.unverified for partition in partitions)
    absent_records = consumed - (accounted - both) - skipped
    # Of what the source no longer has, only the batches' own count can tell records from offsets without a record.
    lost = min(unverified, max(0, position.totals.consumed - (accounted - both) - (absent_records - unverified)))
    if lost:
        partitions = tuple(
            _with_lost(each, found[part], skips.get(part, ()), all_lost=lost == unverified) if each.unverified else each
            for part, each in zip(sorted(end), partitions, strict=True)
        )
    return Audit(
        stream=stream,
        consumed=consumed - (unverified - lost),
        landed=sum(partition.landed for partition in partitions),
        quarantined=sum(partition.quarantined for partition in partitions),
        filtered=filtered,
        missing=absent_records - (unverified - lost) - filtered - erased,
        duplicates=sum(partition.duplicates for partition in partitions),
        beyond=sum(partition.beyond for partition in partitions),
        partitions=partitions,
        skipped=skipped,
        erased=erased,
        holes=sum(partition.holes for partition in partitions),
        unverified=unverified,
    )


_NONE: pa.Array = pa.array([], pa.int64())


def _partition(
    source: str,
    part: Partition,
    start: int,
    to: int,
    records: int | None,
    landed: pa.Array,
    quarantined: pa.Array,
    unfiltered: bool,
    skips: Sequence[tuple[int, int]] = (),
) -> PartitionAudit:
    distinct, distinct_quarantined = pc.unique(landed), pc.unique(quarantined)
    inside, quarantined_inside = _within(distinct, start, to), _within(distinct_quarantined, start, to)
    both = _both(inside, quarantined_inside)
    present = pc.unique(pa.concat_arrays([inside, quarantined_inside]))
    expected = records if records is not None else to - start
    absent_in_skips = sum(
        max(0, min(high, to) - max(low, start)) - len(_within(present, max(low, start), min(high, to)))
        for low, high in skips
    )
    skipped = max(0, min(absent_in_skips, expected - len(present)))
    return PartitionAudit(
        source=source,
        partition=f"{part[0]}/{part[1]}",
        from_=start,
        to=to,
        records=expected,
        landed=len(inside),
        quarantined=len(quarantined_inside),
        missing=expected - len(present) - skipped if unfiltered else None,
        duplicates=len(landed) - len(distinct) + both,
        beyond=len(distinct) - len(inside) + len(distinct_quarantined) - len(quarantined_inside),
        gaps=_gaps(present, start, to, skips) if unfiltered and len(present) != to - start else (),
        skipped=skipped,
    )


def _explained(
    counted: PartitionAudit, absent: Sequence[Span], found: Records, skips: Sequence[Span]
) -> PartitionAudit:
    """The audit of a partition after the source was asked about the offsets that are in neither table.

    Records and unread offsets in a skipped range are skipped.
    """
    records = pa.array(found.offsets, pa.int64())
    skipped_records = sum(len(_within(records, low, high)) for low, high in skips)
    unread = sum(high - low for low, high in found.unread)
    skipped_unread = sum(_overlap(span, skip) for span in found.unread for skip in skips)
    holes = sum(high - low for low, high in absent) - len(records) - unread
    unverified = unread - skipped_unread
    missing = len(records) - skipped_records
    outside = [offset for offset in found.offsets if not any(low <= offset < high for low, high in skips)]
    return replace(
        counted,
        records=counted.to - counted.from_ - holes,
        missing=None if counted.missing is None else missing,
        skipped=skipped_records + skipped_unread,
        gaps=() if counted.missing is None else _runs(outside)[:_GAPS_SHOWN],
        holes=holes,
        unverified=unverified,
    )


def _with_lost(counted: PartitionAudit, found: Records, skips: Sequence[Span], *, all_lost: bool) -> PartitionAudit:
    """The audit of a partition with unverified offsets, some of which the batches counted as records."""
    if counted.missing is None or not all_lost:
        return replace(counted, missing=None)  # which of them is not known
    gaps = [*counted.gaps, *(span for unread in found.unread for span in _outside(unread, skips))]
    return replace(counted, missing=counted.missing + counted.unverified, gaps=tuple(sorted(gaps)[:_GAPS_SHOWN]))


def _outside(span: Span, skips: Sequence[Span]) -> list[Span]:
    """The parts of a range that no person skipped."""
    left = [span]
    for from_, until in skips:
        left = [
            part
            for low, high in left
            for part in ((low, min(high, from_)), (max(low, until), high))
            if part[0] < part[1]
        ]
    return left


def _overlap(one: Span, other: Span) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def _runs(offsets: Sequence[int]) -> tuple[Span, ...]:
    """Consecutive offsets as ranges."""
    runs: list[Span] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], offset + 1)
        else:
            runs.append((offset, offset + 1))
    return tuple(runs)


def _present(landed: pa.Array, quarantined: pa.Array, start: int, to: int) -> pa.Array:
    """The distinct offsets of a partition that are in either table and in the range."""
    return _within(pc.unique(pa.concat_arrays([landed, quarantined])), start, to)


def _absent(present: pa.Array, start: int, to: int) -> list[Span]:
    """All ranges of `start..to` that are not in `present` (distinct, within)."""
    below, above = _edges(present, start, to)
    return [(low + 1, high) for low, high in zip(below.to_pylist(), above.to_pylist(), strict=True)]


def _edges(present: pa.Array, start: int, to: int) -> tuple[pa.Array, pa.Array]:
    """The offsets before and after each range that is not in `present`."""
    ordered = present.take(pc.sort_indices(present))
    edges = pa.concat_arrays([pa.array([start - 1], pa.int64()), ordered, pa.array([to], pa.int64())])
    below, above = edges.slice(0, len(edges) - 1), edges.slice(1)
    apart = pc.greater(pc.subtract(above, below), 1)
    return below.filter(apart), above.filter(apart)


def _gaps(present: pa.Array, start: int, to: int, skips: Sequence[tuple[int, int]] = ()) -> tuple[tuple[int, int], ...]:
    """The first ranges of `start..to` that are not in `present` (distinct, within) and that no person skipped."""
    below, above = _edges(present, start, to)
    most = _GAPS_SHOWN * (len(skips) + 1)
    edge_pairs = zip(below[:most].to_pylist(), above[:most].to_pylist(), strict=True)
    gaps = [(low + 1, high) for low, high in edge_pairs]
    return tuple([part for gap in gaps for part in _outside(gap, skips)][:_GAPS_SHOWN])


def _skipped_ranges(position: Position) -> dict[Partition, list[tuple[int, int]]]:
    """(topic, partition) -> the ranges a person skipped; they do not overlap."""
    ranges: dict[Partition, list[tuple[int, int]]] = {}
    for skip in position.skips:
        start = _partitions(skip.start)
        for part, until in _partitions(skip.end).items():
            ranges.setdefault(part, []).append((start.get(part, until), until))
    return ranges


def rows_between(
    table: Scan, start: Mapping[Partition, int], end: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """The number of rows, and of distinct records, that the table has from `start` to `end`, by partition."""
    ranges = {part: (start[part], end[part]) for part in start if start[part] < end.get(part, 0)}
    if not ranges:
        return {}
    collected = _collect(table(sorted({topic for topic, _ in ranges}), None))
    within = {part: _within(collected.get(part, _NONE), low, high) for part, (low, high) in ranges.items()}
    return {part: (len(offsets), len(pc.unique(offsets))) for part, offsets in within.items()}


def _within(offsets: pa.Array, start: int, to: int) -> pa.Array:
    return offsets.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, to)))


def _both(one: pa.Array, other: pa.Array) -> int:
    return int(pc.sum(pc.is_in(pc.unique(one), value_set=pc.unique(other))).as_py() or 0)


def _collect(batches: Iterator[pa.RecordBatch]) -> dict[Partition, pa.Array]:
    """(topic, partition) -> all offsets in the batches, duplicates included."""
    topic, partition, offset = IDENTITY_COLUMNS["kafka"]
    parts: dict[Partition, list[pa.Array]] = {}
    for batch in batches:
        names, numbers, offsets = batch.column(topic), batch.column(partition), batch.column(offset)
        for name in pc.unique(names).to_pylist():
            of_topic = pc.equal(names, name)
            for number in pc.unique(numbers.filter(of_topic)).to_pylist():
                here = offsets.filter(pc.and_(of_topic, pc.equal(numbers, number)))
                parts.setdefault((name, number), []).append(here.cast(pa.int64()))
    return {part: pa.concat_arrays(arrays) for part, arrays in parts.items()}


def _partitions(offsets: Mapping[str, str]) -> dict[Partition, int]:
    return {part: at for offset in offsets.values() for part, at in _offsets(offset).items()}


def _offsets(offset: str) -> dict[Partition, int]:
    """Kafka's `{topic: {partition: offset}}`; nothing for a source without data yet."""
    if offset == NO_DATA:
        return {}
    document: dict[str, dict[str, int]] = json.loads(offset)
    return {(topic, int(number)): at for topic, parts in document.items() for number, at in parts.items()}
