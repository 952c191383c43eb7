"""Commits a change of the JSON of a table's metadata file to a JDBC catalog: every other value stays as it was read.

For changes that PyIceberg's model would write differently than Iceberg does, or whose format it does not write.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement
    from sqlalchemy import Update

_LOG = 100  # Iceberg's default of write.metadata.previous-versions-max


def commit_document(
    catalog: SqlCatalog,
    table: Table,
    requirements: Sequence[TableRequirement],
    change: Callable[[dict[str, Any]], None],
) -> TableMetadata:
    """Write a changed metadata file and point the catalog at it, if it still names the file that was read.

    Args:
        catalog: a JDBC catalog.
        table: as it was loaded.
        requirements: what must hold in the metadata that is replaced.
        change: changes the document; the metadata log and the time of the update are set here.

    Raises:
        CommitFailedException: a requirement does not hold, or another commit came first; nothing was changed.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.serializers import Compressor
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.table.metadata import TableMetadataUtil

    current = table.metadata_location
    for requirement in requirements:
        requirement.validate(table.metadata)
    with table.io.new_input(current).open() as stream:
        document = json.loads(Compressor.get_compressor(current).stream_decompressor(stream).read())
    change(document)
    _extend_log(document, current)
    after = TableMetadataUtil.parse_obj(json.loads(json.dumps(document)))  # parse_obj changes its argument
    version = catalog._parse_metadata_version(current) + 1
    location = load_location_provider(after.location, after.properties).new_table_metadata_file_location(version)
    with table.io.new_output(location).create() as out:
        out.write(json.dumps(document, ensure_ascii=False).encode())
    if not _swapped(catalog, table, location):
        table.io.delete(location)
        raise CommitFailedException(f"{dotted(table.name())} has been updated by another process")
    return after


def update_if_unchanged(catalog: Catalog, table: Table, **values: str) -> Update:
    """The statement that changes a table's row if it still names the metadata that was read.

    Args:
        catalog: a JDBC catalog.
        table: as it was loaded.
        values: column -> new value.
    """
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import update

    *namespace, name = table.name()
    return (
        update(IcebergTables)
        .where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == ".".join(namespace),
            IcebergTables.table_name == name,
            IcebergTables.metadata_location == table.metadata_location,
        )
        .values(**values)
    )


def _extend_log(document: dict[str, Any], replaced: str) -> None:
    """Extend the metadata log as Iceberg does with `replaced`, the file that is replaced."""
    most = max(1, int(document.get("properties", {}).get("write.metadata.previous-versions-max", _LOG)))
    entry = {"timestamp-ms": document["last-updated-ms"], "metadata-file": replaced}
    document["metadata-log"] = [*document.get("metadata-log", []), entry][-most:]
    document["last-updated-ms"] = max(time.time_ns() // 1_000_000, document["last-updated-ms"])


def _swapped(catalog: SqlCatalog, table: Table, location: str) -> bool:
    """Change the catalog's row if it still names the metadata that was read; whether it did."""
    from sqlalchemy.orm import Session

    change = update_if_unchanged(
        catalog, table, metadata_location=location, previous_metadata_location=table.metadata_location
    )
    with Session(catalog.engine) as session, session.begin():
        return bool(session.execute(change).rowcount == 1)  # type: ignore[attr-defined]  # of an UPDATE
