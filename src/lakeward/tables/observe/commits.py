"""Data files and rows that a commit added and removed, by partition, from its manifests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakeward.tables.facts import Snapshot
from lakeward.tables.observe.predicate import partition_name
from lakeward.tables.verify import Moved

if TYPE_CHECKING:
    from pyiceberg.table import Table


def moved_by(table: Table, snapshots: Iterable[Snapshot]) -> dict[int, dict[str, Moved]]:
    """Snapshot -> partition -> data files and rows in and out; commits without data files are omitted."""
    found = {}
    for snapshot in snapshots:
        parts = _moved(table, snapshot.id)
        if parts:
            found[snapshot.id] = parts
    return found


def _moved(table: Table, snapshot_id: int) -> dict[str, Moved]:
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return {}
    specs = table.specs()
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
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
            name = partition_name(spec, [data.partition[i] for i in range(len(spec.fields))])
            at = 0 if entry.status == ManifestEntryStatus.ADDED else 1
            sums[name][at] += data.record_count
            sums[name][at + 2] += 1
    return {name: Moved(*numbers) for name, numbers in sums.items()}
