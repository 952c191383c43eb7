"""The delete files of an Iceberg table: how many rows of which data files they delete, and how many a reader opens.

A deletion vector and a position delete file for one data file say it themselves. Position deletes for several data
files, and equality deletes, name no file: their rows are shared among the files that they apply to, by their records.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakeward.tables.facts import DeleteFiles, Snapshot
from lakeward.tables.observe.deletion_vectors import referenced
from lakeward.tables.observe.respec import bound

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

Spot = tuple[int, tuple[Any, ...]]
"""The partition of a file: its spec id and its values."""
_NAN: Final = float("nan")
_FILE_PATH: Final = 2147483546
"""Field id of `file_path` in a position delete file, by Iceberg's specification. Equal bounds mean one data file."""
PAIRS: Final = 2_000_000
"""Delete files times data files that are compared; beyond it only the newest delete files are."""


@dataclass(frozen=True)
class Held:
    """A live file.

    Attributes:
        spot: its partition.
        sequence: its data sequence number. A rewrite keeps an older one than that of its commit.
        by: the snapshot that added it, if retained.
        added: the sequence number of the commit that added it.
    """

    data: DataFile
    spot: Spot
    sequence: int
    by: Snapshot | None
    added: int


@dataclass(frozen=True)
class OfFile:
    """What deletes rows of one data file.

    Attributes:
        rows: deleted rows.
        equality: equality-delete files that a reader opens for it.
        shared: whether `rows` is an estimate, by delete files that do not name the file alone.
    """

    rows: int = 0
    equality: int = 0
    shared: bool = False


@dataclass(frozen=True)
class Deletes:
    """The delete files of each partition, and data file -> what deletes its rows."""

    spots: Mapping[Spot, DeleteFiles]
    files: Mapping[str, OfFile]


@dataclass
class _Sums:
    alone: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    shared: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    opened: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def deletes_of(table: Table, manifests: Sequence[ManifestFile], held: Sequence[Held]) -> Deletes:
    """Read the delete manifests of a snapshot.

    Args:
        table: loaded.
        manifests: the delete manifests.
        held: all data files of the snapshot.
    """
    from pyiceberg.manifest import DataFileContent, FileFormat

    files: dict[Spot, int] = defaultdict(int)
    alone: dict[Spot, list[str]] = defaultdict(list)
    several: dict[Spot, list[Held]] = defaultdict(list)
    equality: dict[Spot, list[Held]] = defaultdict(list)
    sums = _Sums()
    for each, one in _entries(table, manifests):
        data = each.data
        files[each.spot] += 1
        low, high = ((bounds or {}).get(_FILE_PATH) for bounds in (data.lower_bounds, data.upper_bounds))
        if data.content == DataFileContent.EQUALITY_DELETES:
            equality[each.spot].append(each)
        elif data.file_format == FileFormat.PUFFIN:  # one for each data file: no merge needed
            if one is not None:
                sums.alone[one] += data.record_count
        elif low is None or low != high:
            several[each.spot].append(each)
        else:
            path = low.decode()
            alone[each.spot].append(path)
            sums.alone[path] += data.record_count
    _share(table, sums, several, equality, held)
    spots = {
        spot: DeleteFiles(
            count,
            len(alone[spot]) - len(set(alone[spot])) + max(len(several[spot]) - 1, 0),
            len(equality[spot]),
        )
        for spot, count in files.items()
    }
    named = {*sums.alone, *sums.shared, *sums.opened}
    return Deletes(
        spots,
        {
            path: OfFile(
                sums.alone.get(path, 0) + round(sums.shared.get(path, 0)), sums.opened.get(path, 0), path in sums.shared
            )
            for path in named
        },
    )


def spot(manifest: ManifestFile, data: DataFile, specs: Mapping[int, PartitionSpec]) -> Spot:
    """The partition of a file: its spec id and its values."""
    spec_id = manifest.partition_spec_id
    return spec_id, tuple(_one_nan(data.partition[i]) for i in range(len(specs[spec_id].fields)))


def _one_nan(value: Any) -> Any:
    """The value; for every NaN the same one, which is equal to itself in a tuple: files of NaN are one partition."""
    return _NAN if isinstance(value, float) and math.isnan(value) else value


def _partitioned(spec: PartitionSpec) -> bool:
    """Whether a spec has partitions: fields that were dropped from a table of version 1 stay as `void`."""
    from pyiceberg.transforms import VoidTransform

    return any(not isinstance(field.transform, VoidTransform) for field in spec.fields)


def _entries(table: Table, manifests: Sequence[ManifestFile]) -> Iterator[tuple[Held, str | None]]:
    """The live delete files, each with the data file that a deletion vector refers to."""
    from pyiceberg.manifest import FileFormat, ManifestEntryStatus

    specs = table.specs()
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        vectors = any(each.data_file.file_format == FileFormat.PUFFIN for each in entries)
        about = referenced(manifest, table.io) if vectors else [None] * len(entries)
        for entry, one in zip(entries, about, strict=True):
            if entry.status != ManifestEntryStatus.DELETED:
                data = entry.data_file
                sequence = entry.sequence_number or 0
                yield Held(data, spot(manifest, data, specs), sequence, None, sequence), one


def _share(
    table: Table,
    sums: _Sums,
    several: Mapping[Spot, list[Held]],
    equality: Mapping[Spot, list[Held]],
    held: Sequence[Held],
) -> None:
    """Add the rows of delete files that name no data file to the files they apply to."""
    by_spot: dict[Spot, list[Held]] = defaultdict(list)
    for each in held if several or equality else ():
        by_spot[each.spot].append(each)
    for of, deletes in several.items():
        for delete in _newest(deletes, by_spot[of]):
            _add(sums, delete, [each for each in by_spot[of] if _names(delete, each)])
    specs, schema = table.specs(), table.schema()
    sure: dict[str, int] = defaultdict(int)
    for of, deletes in equality.items():
        # Those of a spec without partitions apply to every partition.
        files = by_spot[of] if _partitioned(specs[of[0]]) else list(held)
        ranges = _Ranges(schema)
        for delete in _newest(deletes, files):
            applied = [each for each in files if each.sequence < delete.sequence and ranges.meet(delete, each)]
            _add(sums, delete, applied)
            for each in applied:  # another delete of the same value removes the same rows
                sure[each.data.file_path] = max(ranges.by_one(delete, each), sure[each.data.file_path])
            for each in applied:
                sums.opened[each.data.file_path] += 1
    for path, rows in sure.items():
        sums.shared[path] = max(rows, sums.shared[path])


def _newest(deletes: list[Held], files: Sequence[Held]) -> list[Held]:
    """The newest apply to the most files."""
    most = max(PAIRS // max(len(files), 1), 10)
    return sorted(deletes, key=lambda each: -each.sequence)[:most]


def _add(sums: _Sums, delete: Held, applied: Sequence[Held]) -> None:
    records = sum(each.data.record_count for each in applied)
    for each in applied:
        sums.shared[each.data.file_path] += delete.data.record_count * each.data.record_count / max(records, 1)


def _names(delete: Held, file: Held) -> bool:
    """Whether a position delete file may name a data file: of its path range, and not added after it."""
    path = file.data.file_path.encode()
    low, high = ((bounds or {}).get(_FILE_PATH) for bounds in (delete.data.lower_bounds, delete.data.upper_bounds))
    return file.added <= delete.sequence and (low is None or low <= path) and (high is None or path <= high)


class _Ranges:
    """Bounds of columns of files, each decoded once."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[tuple[str, int], tuple[Any, ...]] = {}

    def meet(self, delete: Held, file: Held) -> bool:
        """Whether the bounds of an equality delete and of a data file overlap in every column of equality."""
        return all(self._overlap(delete.data, file.data, column) for column in delete.data.equality_ids or ())

    def by_one(self, delete: Held, file: Held) -> int:
        """Rows of a data file that one record of an equality delete surely removes; 0: it has no such record.

        A record of one column removes every row that is null there, or every row of a file of one value.
        """
        columns = list(delete.data.equality_ids or ())
        if len(columns) != 1:
            return 0
        [column] = columns
        nulls = (file.data.null_value_counts or {}).get(column, 0)
        rows = nulls if (delete.data.null_value_counts or {}).get(column, 0) else 0
        bounds = {*self._of(delete.data, column), *self._of(file.data, column)}
        return rows + (file.data.record_count - nulls if len(bounds) == 1 and None not in bounds else 0)

    def _overlap(self, one: DataFile, other: DataFile, column: int) -> bool:
        if (one.null_value_counts or {}).get(column) != 0 and (other.null_value_counts or {}).get(column) != 0:
            return True  # it may delete nulls, which bounds leave out
        (low, high), (first, last) = self._of(one, column), self._of(other, column)
        return None in (low, high, first, last) or (low <= last and first <= high)

    def _of(self, data: DataFile, column: int) -> tuple[Any, ...]:
        key = (data.file_path, column)
        if key not in self._known:
            there = self._schema.find_column_name(column) is not None  # None: the column was dropped
            bounds = (data.lower_bounds, data.upper_bounds) if there else ()
            self._known[key] = tuple(bound(self._schema, column, each) for each in bounds) if there else (None, None)
        return self._known[key]
