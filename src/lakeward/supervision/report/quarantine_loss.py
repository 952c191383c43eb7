"""Rejected records that the quarantine table of a stream does not have any more: it was dropped, or rows were deleted.

The position counts them, the registry has the offsets of their batches, and the table says which of them are there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import erased, replay
from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.iceberg.missing_records_table import block_reason, give_up
from lakeward.connectors.iceberg.quarantine import REPLAY
from lakeward.connectors.kafka import position as offsets
from lakeward.connectors.kafka.records import Partition
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import count
from lakeward.registry.batches import Batch
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

MOST_BATCHES, SHOWN = 1000, 8
"""How many batches with rejected records are compared with the table, and how many of them are shown."""


@dataclass(frozen=True)
class Rejected:
    """What the registry knows of a stream's rejected records.

    Attributes:
        batches: those that rejected records, newest first.
        tables: the quarantine tables that its generations name: a generation may name another one than before.
    """

    batches: Sequence[Batch] = ()
    tables: Collection[str] = ()


Rejecting = Callable[[], Rejected]
Span = tuple[Partition, int, int]


@dataclass(frozen=True)
class QuarantineState:
    """The quarantine table of a stream whose position counts rejected records.

    Attributes:
        table: its name.
        missing: whether there is no such table.
        records: rejected records that are in no table.
        where: their batches, newest first: `2 of flights/0: 5 to 9`.
        next: the ways to go on without the table, or without the records; empty if none is lost.
    """

    table: str
    missing: bool = False
    records: int = 0
    where: tuple[str, ...] = ()
    next: str = ""

    @property
    def text(self) -> str:
        """What is lost, in a sentence; empty if nothing is."""
        if not self.records:
            return ""
        verb = "is" if self.records == 1 else "are"
        how = "does not exist any more" if self.missing else "was dropped, or rows were deleted from it"
        shown = "; ".join(self.where[:SHOWN])
        more = f" and {len(self.where) - SHOWN} more batches" if len(self.where) > SHOWN else ""
        place = f" ({shown}{more})" if shown else ""
        return (
            f"{count(self.records, 'rejected record')}{place} {verb} in no table: quarantine table {self.table} {how}"
        )


def read(runtime: Runtime, spec: StreamSpec, position: Position | None, rejecting: Rejecting) -> QuarantineState | None:
    """Ask the catalog for the quarantine table; None for a stream that has none, or no rejected record.

    Counts come from the table's manifests. Only a table with fewer rows than the position counts is read.
    """
    counted = position.totals.quarantined if position is not None else 0
    if spec.quarantine is None or not counted:
        return None
    from lakeward.connectors.iceberg.catalog import load_lake

    name, stream = str(spec.quarantine.table), str(spec.id)
    catalog = load_lake(runtime.lake, runtime.pgpass)
    table = _table(catalog, name)
    if table is not None and (spec.lineage != "rows" or _rows(table, stream) >= counted):
        return QuarantineState(name)
    rejected = rejecting()
    others = [each for other in sorted({*rejected.tables} - {name}) if (each := _table(catalog, other)) is not None]
    there = [*others, *([] if table is None else [table])]
    pending = counted - sum(_rows(each, stream) for each in others)
    if spec.sink.iceberg is not None:
        sink = str(spec.sink.iceberg.table)
        done = replay.of(catalog.load_table(name_parts(sink)).properties, stream, sink).totals
        pending -= done.landed + done.filtered
    pending = max(0, pending)
    if table is None and not others:
        where = tuple(in_words(batch_spans(batch), batch.quarantined or 0) for batch in rejected.batches)
        lost = pending
    else:
        losses = list(_losses(rejected.batches, _offsets(there, spec)))
        where = tuple(in_words(spans, number) for spans, number in losses)
        if table is None:
            lost = pending
        else:
            missing = sum(number for _, number in losses)
            # Of the same batches are rows that were erased, and rows that somebody deleted after their records landed.
            here = _rows(table, stream, waiting=True)
            lost = max(0, min(missing, pending - here))
            where = where if lost == missing else ()
    if not lost:
        return QuarantineState(name)
    if table is None:
        ways = block_reason(stream, name, lost, runtime.lake).next
    else:
        ways = give_up(stream, name, erased.of(table.properties, stream, name) + lost, runtime.lake)
    return QuarantineState(name, table is None, lost, where, ways)


def _table(catalog: Catalog, name: str) -> Table | None:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return catalog.load_table(name_parts(name))
    except NoSuchTableError:
        return None


def _losses(batches: Sequence[Batch], there: Mapping[Partition, list[int]]) -> Iterator[tuple[list[Span], int]]:
    """The offsets of each batch with fewer rows in the table than records that it rejected, and how many are not there.

    A batch whose offsets landed again after a reset is compared once.
    """
    seen: list[Span] = []
    for batch in batches:
        spans = batch_spans(batch)
        if not spans or any(_overlap(one, other) for one in spans for other in seen):
            continue
        seen += spans
        found = 0
        for part, low, high in spans:
            known = there.get(part, [])
            found += bisect_left(known, high) - bisect_left(known, low)
        if found < (batch.quarantined or 0):
            yield spans, (batch.quarantined or 0) - found


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def batch_spans(batch: Batch) -> list[Span]:
    """The Kafka offsets of a batch; empty for other sources."""
    spans: list[Span] = []
    starts = batch.start_offsets or {}
    for source, end in (batch.end_offsets or {}).items():
        try:
            first, last = offsets.parse(str(starts.get(source, NO_DATA))), offsets.parse(str(end))
        except (ValueError, AttributeError, TypeError):
            continue
        for topic, parts in sorted(last.items()):
            for number, to in sorted(parts.items()):
                begin = max(0, first.get(topic, {}).get(number, 0))
                if begin < to:
                    spans.append(((topic, number), begin, to))
    return spans


def in_words(spans: list[Span], lost: int) -> str:
    """`2 of flights/0: 5 to 9`; only the range where every record of it is lost."""
    total = sum(to - begin for _, begin, to in spans)
    if not spans:
        return count(lost, "record")
    ranges = ", ".join(
        f"{topic}/{number}: {begin}" + (f" to {to - 1}" if to - begin > 1 else "")
        for (topic, number), begin, to in spans
    )
    return ranges if lost == total else f"{lost:,} of {ranges}"


def _rows(table: Table, stream: str, *, waiting: bool = False) -> int:
    """The rows of the stream, erased ones included. `waiting`: only those that no replay has taken."""
    from pyiceberg import expressions

    if "stream" not in table.schema().column_names or table.current_snapshot() is None:
        return 0
    build: Any = expressions  # pydantic hides these constructors from mypy
    chosen = build.EqualTo("stream", stream)
    if waiting and REPLAY in table.schema().column_names:
        chosen = build.And(chosen, build.IsNull(REPLAY))
    rows = table.scan(row_filter=chosen).count()
    return int(rows) + erased.of(table.properties, stream, ".".join(table.name()))


def _offsets(tables: Sequence[Table], spec: StreamSpec) -> dict[Partition, list[int]]:
    """The offsets of the stream's records in these tables, sorted."""
    from lakeward.connectors.iceberg.audit import scan

    found: dict[Partition, list[int]] = {}
    topics = sorted({str(topic) for source in spec.sources.values() if source.kafka for topic in source.kafka.topics})
    for table in tables:
        if not {"stream", "_kafka_offset"} <= set(table.schema().column_names):
            continue
        for batch in scan(table)(topics, str(spec.id)):
            for row in batch.to_pylist():
                found.setdefault((row["_kafka_topic"], row["_kafka_partition"]), []).append(row["_kafka_offset"])
    return {part: sorted(numbers) for part, numbers in found.items()}
