"""Every file that a table's metadata references, over all retained snapshots: branches, tags and staged batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakeward.platform.errors import Refused
from lakeward.platform.text import word
from lakeward.spec.sql.names import dotted

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
    yield Reference(_hint(table), must=False)
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


def hinted(table: Table, content: Callable[[str], bytes | None]) -> Iterator[Reference]:
    """The files that `version-hint.text` leads to: readers without the catalog go by it, to metadata that the catalog
    may not know, with all its snapshots, or to an earlier version of the table, with its current snapshot. None of
    them has to exist.

    Args:
        table: freshly loaded.
        content: the bytes of a file, None if it does not exist.

    Raises:
        Refused: the metadata it leads to cannot be read.
    """
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.serializers import FromInputFile

    version = (content(_hint(table)) or b"").decode(errors="replace").strip()
    folder = _hint(table).rpartition("/")[0]
    earlier = {entry.metadata_file for entry in table.metadata.metadata_log}
    for name in _NAMES if re.fullmatch(r"[\w.-]+", version) else ():
        path = f"{folder}/{name.format(version)}"
        if path == table.metadata_location or content(path) is None:
            continue
        yield Reference(path, must=False)
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(path))
        except (ValueError, ValidationError) as error:
            raise Refused(
                f"Orphans of {dotted(table.name())} are not known: {path} cannot be read",
                why="version-hint.text leads readers without the catalog to it, and the files that it names are theirs",
                next=f"repair or delete version-hint.text, then: lakeward tables maintain {word(dotted(table.name()))} "
                "--actions orphans --dry-run",
                code="LW-3486",
            ) from error
        read: set[str] = set()
        for snapshot in metadata.snapshots:
            if path in earlier and snapshot.snapshot_id != metadata.current_snapshot_id:
                continue
            one = metadata.model_copy(update={"snapshots": [snapshot]})
            try:
                for each in references(type(table)(table.name(), one, path, table.io, table.catalog), read):
                    yield replace(each, must=False)
            except FileNotFoundError:
                continue  # expired since


def _hint(table: Table) -> str:
    return f"{table.metadata.location.rstrip('/')}/metadata/version-hint.text"


_NAMES = ("v{}.metadata.json", "v{}.gz.metadata.json", "v{}.metadata.json.gz", "{}.metadata.json", "{}")
"""The file that a version hint means, by the Hadoop catalog, compressed or not, and by DuckDB."""
