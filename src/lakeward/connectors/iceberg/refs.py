"""Set branches and tags of a table in one commit, on the condition it was decided on.

PyIceberg reads the metadata of format version 3 and does not write it: its model knows no encryption keys, and writing
a model would drop what it does not know. In a JDBC catalog the file itself is changed then, as the document it is:
every value that is no ref stays what it was. REST catalogs take the change as a request, whatever the format.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import Internal

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import SetSnapshotRefUpdate, TableRequirement

MAIN = "main"
_WRITTEN = 2  # the newest format whose metadata PyIceberg writes
_LOG = 100  # Iceberg's default of write.metadata.previous-versions-max


def settable(catalog: Catalog, table: Table) -> bool:
    """Whether `set_refs` can do it, by catalog and format."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    return table.metadata.format_version <= _WRITTEN or isinstance(catalog, RestCatalog | SqlCatalog)


def set_refs(
    catalog: Catalog, table: Table, requirements: Sequence[TableRequirement], refs: Sequence[SetSnapshotRefUpdate]
) -> None:
    """Set refs that are not main.

    Args:
        catalog: one that is `settable`.
        table: as it was loaded.
        requirements: what must be so in the metadata that is replaced.

    Raises:
        CommitFailedException: it is not so any more, or somebody committed meanwhile; nothing was changed.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    if any(each.ref_name == MAIN for each in refs):
        raise Internal(
            f"Branch {MAIN} of {'.'.join(table.name())} cannot be moved by its ref alone",
            why="its snapshot log moves too",
            code="LW-3081",
        )
    if table.metadata.format_version > _WRITTEN and isinstance(catalog, SqlCatalog):
        after = _in_the_document(catalog, table, requirements, refs)
    else:
        after = catalog.commit_table(table, tuple(requirements), tuple(refs)).metadata
    # As Iceberg does after each commit of its own, where the table's properties want it.
    catalog._delete_old_metadata(table.io, table.metadata, after)


def _in_the_document(
    catalog: SqlCatalog, table: Table, requirements: Sequence[TableRequirement], refs: Sequence[SetSnapshotRefUpdate]
) -> TableMetadata:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.serializers import Compressor
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.table.metadata import TableMetadataUtil

    standing = table.metadata_location
    for each in requirements:
        each.validate(table.metadata)
    with table.io.new_input(standing).open() as stream:
        document = json.loads(Compressor.get_compressor(standing).stream_decompressor(stream).read())
    _change(document, standing, refs)
    after = TableMetadataUtil.parse_obj(json.loads(json.dumps(document)))  # it changes what it is given
    version = catalog._parse_metadata_version(standing) + 1
    place = load_location_provider(after.location, after.properties).new_table_metadata_file_location(version)
    with table.io.new_output(place).create() as out:
        out.write(json.dumps(document, ensure_ascii=False).encode())
    if not _swapped(catalog, table, place):
        table.io.delete(place)
        raise CommitFailedException(f"{'.'.join(table.name())} has been updated by another process")
    return after


def _change(document: dict[str, Any], standing: str, refs: Sequence[SetSnapshotRefUpdate]) -> None:
    """Set the refs, and keep the log of metadata files as Iceberg does: `standing` is the file that is replaced."""
    known = document.setdefault("refs", {})
    for each in refs:
        named = each.model_dump(mode="json", by_alias=True, exclude_none=True)
        known[each.ref_name] = {key: value for key, value in named.items() if key not in ("action", "ref-name")}
    most = max(1, int(document.get("properties", {}).get("write.metadata.previous-versions-max", _LOG)))
    entry = {"timestamp-ms": document["last-updated-ms"], "metadata-file": standing}
    document["metadata-log"] = [*document.get("metadata-log", []), entry][-most:]
    document["last-updated-ms"] = max(time.time_ns() // 1_000_000, document["last-updated-ms"])


def _swapped(catalog: SqlCatalog, table: Table, place: str) -> bool:
    """Whether the catalog's row was ours to change: it still named the metadata that was read."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import update
    from sqlalchemy.orm import Session

    *namespace, name = table.name()
    change = (
        update(IcebergTables)
        .where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == ".".join(namespace),
            IcebergTables.table_name == name,
            IcebergTables.metadata_location == table.metadata_location,
        )
        .values(metadata_location=place, previous_metadata_location=table.metadata_location)
    )
    with Session(catalog.engine) as session, session.begin():
        return bool(session.execute(change).rowcount == 1)  # type: ignore[attr-defined]  # of an UPDATE
