"""Is every record of the source in the table exactly once? Counted from positions in the table, never from counters.

Every landed row carries the position of its source record, so does every quarantined one. Between the stream's first
start and its position each record must be in exactly one of the two, or have been filtered by the transform.
Offsets are not records: a transaction's markers and compacted records leave holes in a topic, which are no losses.
The caller gives the number of records the source really has there (`records`) where a topic can have holes.
Reads three columns of the table with PyIceberg, no JVM; about 8 bytes of memory for each row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.connectors.iceberg.position import NO_DATA, Position
from lakeward.spec.positions import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.table import Table

_GAPS_SHOWN = 10
Partition = tuple[str, int]
"""(topic, partition)"""


@dataclass(frozen=True)
class PartitionAudit:
    """One partition of a source; offsets `from_` (inclusive) to `to` (exclusive).

    Attributes:
        source, partition: source name and `topic/number`.
        records: records the source has in the range.
        landed, quarantined: distinct records found.
        missing: records found nowhere; None where the transform filters, for then it cannot be told by partition.
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


@dataclass(frozen=True)
class Audit:
    """A whole stream; see `PartitionAudit`. `missing` counts what the filter does not explain."""

    stream: str
    consumed: int
    landed: int
    quarantined: int
    filtered: int
    missing: int
    duplicates: int
    beyond: int
    partitions: tuple[PartitionAudit, ...]

    @property
    def clean(self) -> bool:
        """Nothing lost, nothing doubled, nothing uncounted."""
        return self.missing == 0 and self.duplicates == 0 and self.beyond == 0


def audit(
    table: Table,
    stream: str,
    position: Position,
    quarantine: Table | None = None,
    records: Mapping[Partition, int] | None = None,
) -> Audit:
    """Audit a stream of lineage `rows` whose sources are Kafka topics.

    Two streams that read the same topic into the same table cannot be told apart and count as duplicates.

    Args:
        table: the sink, freshly loaded.
        position: the stream's, from the same load.
        quarantine: the quarantine table, freshly loaded after `table` so that it is not behind it.
        records: (topic, partition) -> records the source has between begin and end; default: one for each offset.
    """
    begin, end = _partitions(position.begin), _partitions(position.end)
    source_of = {part: source for source, offset in position.end.items() for part in _offsets(offset)}
    topics = sorted({topic for topic, _ in end})
    landed = _collect(_scan(table, topics, None))
    aside = _collect(_scan(quarantine, topics, stream)) if quarantine is not None else {}
    filtered = position.totals.filtered
    found = tuple(
        _partition(
            source_of[part],
            part,
            begin.get(part, 0),
            end[part],
            (records or {}).get(part),
            landed.get(part, _NONE),
            aside.get(part, _NONE),
            filtered == 0,
        )
        for part in sorted(end)
    )
    consumed = sum(each.records for each in found)
    accounted = sum(each.landed + each.quarantined for each in found)
    # A record both landed and put aside is one record; it stands in `duplicates` and must not hide a missing one.
    both = sum(_both(landed.get(part, _NONE), aside.get(part, _NONE)) for part in end)
    return Audit(
        stream=stream,
        consumed=consumed,
        landed=sum(each.landed for each in found),
        quarantined=sum(each.quarantined for each in found),
        filtered=filtered,
        missing=consumed - (accounted - both) - filtered,
        duplicates=sum(each.duplicates for each in found),
        beyond=sum(each.beyond for each in found),
        partitions=found,
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
) -> PartitionAudit:
    distinct, put_aside = pc.unique(landed), pc.unique(aside)
    inside, aside_inside = _within(distinct, start, to), _within(put_aside, start, to)
    both = _both(inside, aside_inside)
    there = pc.unique(pa.concat_arrays([inside, aside_inside]))
    expected = records if records is not None else to - start
    return PartitionAudit(
        source=source,
        partition=f"{part[0]}/{part[1]}",
        from_=start,
        to=to,
        records=expected,
        landed=len(inside),
        quarantined=len(aside_inside),
        missing=expected - len(there) if unfiltered else None,
        duplicates=len(landed) - len(distinct) + both,
        beyond=len(distinct) - len(inside) + len(put_aside) - len(aside_inside),
        gaps=_gaps(there, start, to) if unfiltered and len(there) != to - start else (),
    )


def _gaps(there: pa.Array, start: int, to: int) -> tuple[tuple[int, int], ...]:
    """The first ranges of `start..to` that `there` (distinct, within) does not hold."""
    ordered = there.take(pc.sort_indices(there))
    edges = pa.concat_arrays([pa.array([start - 1], pa.int64()), ordered, pa.array([to], pa.int64())])
    below, above = edges.slice(0, len(edges) - 1), edges.slice(1)
    apart = pc.greater(pc.subtract(above, below), 1)
    found = zip(
        below.filter(apart)[:_GAPS_SHOWN].to_pylist(), above.filter(apart)[:_GAPS_SHOWN].to_pylist(), strict=True
    )
    return tuple((low + 1, high) for low, high in found)


def _within(offsets: pa.Array, start: int, to: int) -> pa.Array:
    return offsets.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, to)))


def _both(one: pa.Array, other: pa.Array) -> int:
    return int(pc.sum(pc.is_in(pc.unique(one), value_set=pc.unique(other))).as_py() or 0)


def _scan(table: Table, topics: list[str], stream: str | None) -> Iterator[pa.RecordBatch]:
    """The identity columns of main's head, only the rows of these topics (and of this stream)."""
    from pyiceberg import expressions

    build: Any = expressions  # pydantic hides these constructors from mypy
    topic, partition, offset = IDENTITY_COLUMNS["kafka"]
    wanted: expressions.BooleanExpression = build.In(topic, topics)
    if stream is not None:
        wanted = build.And(wanted, build.EqualTo("stream", stream))
    if table.current_snapshot() is None:
        return iter(())
    reader: Any = table.scan(row_filter=wanted, selected_fields=(topic, partition, offset)).to_arrow_batch_reader()
    return iter(reader)


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
