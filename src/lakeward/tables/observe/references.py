"""Every file that a table's metadata references, over all retained snapshots: branches, tags and staged batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Reference:
    """One referenced file.

    Attributes:
        path: as the metadata spells it.
        by: the snapshot that added it; None if unknown.
        must: whether the table is damaged without it. Old metadata files may be missing.
    """

    path: str
    by: int | None = None
    must: bool = True


def references(table: Table, read: set[str]) -> Iterator[Reference]:
    """The files of a loaded table, one at a time and some more than once.

    Args:
        table: freshly loaded.
        read: manifests and manifest lists of earlier calls. They are skipped, and those read now are added, so that a
            second call returns only files committed since.
    """
    metadata = table.metadata
    yield Reference(table.metadata_location, must=False)
    yield Reference(f"{metadata.location.rstrip('/')}/metadata/version-hint.text", must=False)
    for entry in metadata.metadata_log:
        yield Reference(entry.metadata_file, must=False)
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield Reference(statistics.statistics_path, statistics.snapshot_id, must=False)
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list in read:
            continue
        read.add(snapshot.manifest_list)
        yield Reference(snapshot.manifest_list, snapshot.snapshot_id)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in read:
                continue
            read.add(manifest.manifest_path)
            yield Reference(manifest.manifest_path, manifest.added_snapshot_id)
            for held in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield Reference(held.data_file.file_path, held.snapshot_id)
