"""Sets branches and tags of a table in one commit, if its requirements still hold.

PyIceberg reads the metadata of format version 3 but does not write it: its model has no encryption keys, and writing a
model would drop unknown fields. In a JDBC catalog the JSON of the metadata file is changed instead, and every value
except the refs stays the same. REST catalogs accept the change as a request for every format version.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import Internal
from lakeward.spec.sql.names import dotted

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
    """Whether `set_refs` supports the catalog and the format version of the table."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    return table.metadata.format_version <= _WRITTEN or isinstance(catalog, RestCatalog | SqlCatalog)


def set_refs(
    catalog: Catalog, table: Table, requirements: Sequence[TableRequirement], refs: Sequence[SetSnapshotRefUpdate]
) -> None:
    """Set refs other than main.

    Args:
        catalog: must be `settable`.
        table: as it was loaded.
        requirements: what must hold in the metadata that is replaced.

    Raises:
        CommitFailedException: a requirement does not hold, or another commit came first; nothing was changed.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    if any(ref.ref_name == MAIN for ref in refs):
        raise Internal(
            f"Branch {MAIN} of {dotted(table.name())} cannot be moved by its ref alone",
            why="the snapshot log must move together with it",
            code="LW-3081",
        )
    if table.metadata.format_version > _WRITTEN and isinstance(catalog, SqlCatalog):
        after = _in_the_document(catalog, table, requirements, refs)
    else:
        after = catalog.commit_table(table, tuple(requirements), tuple(refs)).metadata
    # Iceberg does this after each of its own commits, if the table's properties enable it.
    catalog._delete_old_metadata(table.io, table.metadata, after)


def _in_the_document(
    catalog: SqlCatalog, table: Table, requirements: Sequence[TableRequirement], refs: Sequence[SetSnapshotRefUpdate]
) -> TableMetadata:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.serializers import Compressor
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.table.metadata import TableMetadataUtil

    current = table.metadata_location
    for requirement in requirements:
        requirement.validate(table.metadata)
    with table.io.new_input(current).open() as stream:
        document = json.loads(Compressor.get_compressor(current).stream_decompressor(stream).read())
    _change(document, current, refs)
    after = TableMetadataUtil.parse_obj(json.loads(json.dumps(document)))  # parse_obj changes its argument
    version = catalog._parse_metadata_version(current) + 1
    location = load_location_provider(after.location, after.properties).new_table_metadata_file_location(version)
    with table.io.new_output(location).create() as out:
        out.write(json.dumps(document, ensure_ascii=False).encode())
    if not _swapped(catalog, table, location):
        table.io.delete(location)
        raise CommitFailedException(f"{dotted(table.name())} has been updated by another process")
    return after


def _change(document: dict[str, Any], replaced: str, refs: Sequence[SetSnapshotRefUpdate]) -> None:
    """Set the refs, and extend the metadata log as Iceberg does with `replaced`, the file that is replaced."""
    known = document.setdefault("refs", {})
    for ref in refs:
        fields = ref.model_dump(mode="json", by_alias=True, exclude_none=True)
        known[ref.ref_name] = {key: value for key, value in fields.items() if key not in ("action", "ref-name")}
    most = max(1, int(document.get("properties", {}).get("write.metadata.previous-versions-max", _LOG)))
    entry = {"timestamp-ms": document["last-updated-ms"], "metadata-file": replaced}
    document["metadata-log"] = [*document.get("metadata-log", []), entry][-most:]
    document["last-updated-ms"] = max(time.time_ns() // 1_000_000, document["last-updated-ms"])


def _swapped(catalog: SqlCatalog, table: Table, location: str) -> bool:
    """Change the catalog's row if it still names the metadata that was read; whether it did."""
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
        .values(metadata_location=location, previous_metadata_location=table.metadata_location)
    )
    with Session(catalog.engine) as session, session.begin():
        return bool(session.execute(change).rowcount == 1)  # type: ignore[attr-defined]  # of an UPDATE
