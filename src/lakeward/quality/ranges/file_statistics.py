"""File statistics from Iceberg metadata: row count, nulls, least and greatest value of the rows of data files.

Checks on them open no data file. If something could make a value inexact (delete files, a column without statistics in
some file, NaN, cut text), the value is unknown, never estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakeward.quality.ranges.range import Read
    from lakeward.quality.ranges.snapshot_chain import Snapshot

# Bounds of these types are exact; those of text and bytes are cut after 16 characters.
_EXACT = ("int", "long", "float", "double", "date", "timestamp", "timestamptz")
_DAY_ZERO, _ZERO = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ColumnFacts:
    """One column over all the rows.

    Attributes:
        nulls: rows without a value; None if unknown.
        bounded: whether `low` and `high` are exact; both None then means that no row has a value.
        low, high: the least and the greatest value, as Spark would return them (times without a zone, in UTC).
    """

    nulls: int | None = None
    bounded: bool = False
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class FileStatistics:
    """The rows of one read.

    Attributes:
        rows: the exact number of rows.
        columns: top-level columns, by their exact names.
    """

    rows: int
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


def file_statistics(table: Table, read: Read, appends: Sequence[Snapshot]) -> FileStatistics | None:
    """File statistics of the rows of `read`; None when they would not be exact.

    Args:
        table: as PyIceberg has it.
        read: the rows.
        appends: for a read of a range: its snapshots that appended rows.
    """
    head = table.snapshot_by_id(read.end)
    if head is None or head.schema_id != table.metadata.current_schema_id:
        return None  # columns may have been renamed
    # A read by row lineage has no appends: files state their rows, not which of them were rewritten.
    files = _standing(table, head) if read.whole else _appended(table, appends)
    if not files:
        return None
    rows = sum(file.record_count for file in files)
    return FileStatistics(rows, {name: _column(files, kind, number) for name, kind, number in _fields(table.schema())})


def _standing(table: Table, snapshot: Any) -> list[Any] | None:
    """The data files of one snapshot; None when rows of them may be deleted."""
    from pyiceberg.manifest import ManifestContent

    manifests = snapshot.manifests(table.io)
    if any(manifest.content == ManifestContent.DELETES for manifest in manifests):
        return None
    return [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]


def _appended(table: Table, appends: Sequence[Snapshot]) -> list[Any] | None:
    """The data files the snapshots added; None when their metadata disagrees with the commit summaries."""
    from pyiceberg.manifest import ManifestEntryStatus

    found: list[Any] = []
    for append in appends:
        snapshot = table.snapshot_by_id(append.id)
        if snapshot is None:
            return None
        added = [
            entry.data_file
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == append.id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == ManifestEntryStatus.ADDED
        ]
        if sum(file.record_count for file in added) != append.added:
            return None
        found += added
    return found


def _fields(schema: Schema) -> Iterator[tuple[str, Any, int]]:
    for column in schema.fields:
        if column.field_type.is_primitive:
            yield column.name, column.field_type, column.field_id


def _column(files: Sequence[Any], kind: Any, number: int) -> ColumnFacts:
    nulls = [count for file in files if (count := (file.null_value_counts or {}).get(number)) is not None]
    if len(nulls) < len(files):
        return ColumnFacts()
    total = sum(nulls)
    if str(kind) not in _EXACT:
        return ColumnFacts(total)
    if str(kind) in ("float", "double") and any((file.nan_value_counts or {}).get(number) != 0 for file in files):
        return ColumnFacts(total)
    valued = [file for file, count in zip(files, nulls, strict=True) if count < file.record_count]
    lows = [_value(kind, (file.lower_bounds or {}).get(number)) for file in valued]
    highs = [_value(kind, (file.upper_bounds or {}).get(number)) for file in valued]
    if any(each is None for each in (*lows, *highs)):
        return ColumnFacts(total)
    return ColumnFacts(total, True, min(lows, default=None), max(highs, default=None))


def _value(kind: Any, stored: bytes | None) -> Any:
    """A bound; None when it is missing, stored in an older type of the column, or a time too far for Python."""
    import struct

    from pyiceberg.conversions import from_bytes

    if stored is None:
        return None
    try:
        value: Any = from_bytes(kind, stored)
    except (struct.error, ValueError):
        return None
    try:
        if str(kind) == "date":
            return _DAY_ZERO + timedelta(days=value)
        if str(kind) in ("timestamp", "timestamptz"):
            return (_ZERO + timedelta(microseconds=value)).replace(tzinfo=None)
    except OverflowError:  # a year before 1 or after 9999: Spark compares it
        return None
    return value
