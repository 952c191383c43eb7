"""Data files and rows that a commit added and removed, by partition, from its manifests.

Partitions are compared by typed values. A commit that rewrote files of an earlier partition spec is compared by the
fields that all its specs have, in sum if there is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.tables.facts import Snapshot
from lakeward.tables.observe.predicate import partition_name
from lakeward.tables.partition_values import Partition, comparable
from lakeward.tables.verify import Moved

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

_File = tuple[int, tuple[Any, ...], bool, int]
"""A data file of a commit: spec id, partition values, whether it was added, records."""


def moved_by(table: Table, snapshots: Iterable[Snapshot]) -> dict[int, dict[Partition, Moved]]:
    """Snapshot -> partition -> data files and rows in and out; commits without data files are omitted."""
    found = {}
    for snapshot in snapshots:
        parts = _moved(table, snapshot.id)
        if parts:
            found[snapshot.id] = parts
    return found


def _moved(table: Table, snapshot_id: int) -> dict[Partition, Moved]:
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return {}
    specs = table.specs()
    files: list[_File] = []
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot_id or manifest.content != ManifestContent.DATA:
            continue
        spec = specs[manifest.partition_spec_id]
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            data = entry.data_file
            if entry.snapshot_id != snapshot_id or data.content != DataFileContent.DATA:
                continue
            if entry.status == ManifestEntryStatus.EXISTING:
                continue
            values = tuple(data.partition[i] for i in range(len(spec.fields)))
            files.append((spec.spec_id, values, entry.status == ManifestEntryStatus.ADDED, data.record_count))
    used = [specs[spec_id] for spec_id in sorted({spec_id for spec_id, *_ in files})]
    sums: dict[Partition, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for spec_id, values, added, records in files:
        of = sums[in_common(used, specs[spec_id], values)]
        of[0 if added else 1] += records
        of[2 if added else 3] += 1
    return {partition: Moved(*numbers) for partition, numbers in sums.items()}


def in_common(used: Sequence[PartitionSpec], spec: PartitionSpec, values: Sequence[Any]) -> Partition:
    """A partition by the fields that all the specs have.

    A field is its column and its transform: names and field ids differ between specs.

    Args:
        used: the specs of all files of the commit.
        spec: the one of this file.
        values: its partition values.
    """
    fields = [dict(_fields(each)) for each in used]
    shared = sorted(set.intersection(*(set(each) for each in fields)))
    at = dict(_fields(spec))
    kept_values = [at[key] for key in shared]
    name = partition_name(spec, values) if len(used) == 1 else partition_name(spec, values, kept_values)
    return Partition(tuple(comparable(values[each]) for each in kept_values), name)


def _fields(spec: PartitionSpec) -> list[tuple[tuple[int, str], int]]:
    """Column and transform of each field -> its index; a `void` field of a format 1 table was dropped."""
    return [
        ((field.source_id, str(field.transform)), index)
        for index, field in enumerate(spec.fields)
        if str(field.transform) != "void"
    ]
