"""A table without its columns, for those who need the paths it names: PyIceberg reads no table with a type it lacks.

Such a table (`variant`) is as sound as any other. Which files it names has to be known before a file of another table
is deleted; its columns do not matter for that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.platform.errors import Unhealthy
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def invalid() -> tuple[type[Exception], ...]:
    """The errors by which PyIceberg says that a metadata file is not valid."""
    from pyiceberg.exceptions import ValidationError

    return ValueError, ValidationError


def load(catalog: Catalog, identifier: tuple[str, ...]) -> Table:
    """A table of the catalog. Nothing may be committed through it: it may have no columns.

    Raises:
        NoSuchTableError: there is none.
        ValueError, ValidationError: its metadata is not valid whatever its columns are, or its path is not known.
    """
    try:
        return catalog.load_table(identifier)
    except invalid():
        pointer = pointer_of(catalog, identifier)
        if pointer is None:
            raise
        return static(pointer, catalog)


def readable(catalog: Catalog, identifier: tuple[str, ...]) -> Table:
    """A table of the catalog, as `load_table`; one whose columns PyIceberg does not know is refused by the column.

    Raises:
        NoSuchTableError: there is none.
        Unhealthy: a column has a type that PyIceberg cannot read.
        ValueError, ValidationError: its metadata is not valid.
    """
    try:
        return catalog.load_table(identifier)
    except invalid():
        pointer = pointer_of(catalog, identifier)
        found = {} if pointer is None else foreign_types(pointer, catalog)
        if not found:
            raise
        column, kind = min(found.items())
        raise Unhealthy(
            f"Table {dotted(identifier)} is not maintained by Lakeward",
            why=f"PyIceberg cannot read tables with the type of its column {column}: {kind}. The table is as it "
            "was, and no file that it names is deleted",
            next="maintain it with the engine that writes it; other tables go on",
            code="LW-3531",
        ) from None


def static(pointer: str, catalog: Catalog) -> Table:
    """The table of a metadata file, with the same limits; `catalog` says how files are opened."""
    from pyiceberg.table import StaticTable

    try:
        return StaticTable.from_metadata(pointer, catalog.properties)
    except invalid():
        from pyiceberg.io import load_file_io
        from pyiceberg.table.metadata import TableMetadataUtil

        document = _document(pointer, catalog)
        for schema in _schemas(document):
            schema["fields"] = []
        metadata = TableMetadataUtil.parse_obj(document)
        io = load_file_io({**catalog.properties, **metadata.properties}, location=pointer)
        return StaticTable(("static-table", pointer), metadata, pointer, io, catalog)


def foreign_types(pointer: str, catalog: Catalog) -> dict[str, str]:
    """Column -> its type, of the columns that PyIceberg cannot read; empty if its metadata is not valid otherwise.

    Raises:
        OSError, ValueError, ValidationError: the file cannot be read.
    """
    from pyiceberg.types import NestedField

    found: dict[str, str] = {}
    for schema in _schemas(_document(pointer, catalog)):
        for field in schema.get("fields", []):
            try:
                NestedField.model_validate(field)
            except ValueError:
                kind = field.get("type")
                found[str(field.get("name"))] = kind if isinstance(kind, str) else "a type that contains such a type"
    if found:
        static(pointer, catalog)
    return found


def pointer_of(catalog: Catalog, identifier: tuple[str, ...]) -> str | None:
    """The metadata file of a table; None where only the loaded table tells it (REST, Hive), or without the table."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select

    catalog = own(catalog, identifier)
    if not isinstance(catalog, SqlCatalog):
        return None
    query = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == ".".join(identifier[:-1]),
        IcebergTables.table_name == identifier[-1],
    )
    with catalog.engine.connect() as connection:
        return connection.execute(query).scalar()


def _document(pointer: str, catalog: Catalog) -> dict[str, Any]:
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import Compressor

    compressor = Compressor.get_compressor(location=pointer)
    file = load_file_io(catalog.properties, location=pointer).new_input(pointer)
    with file.open() as raw, compressor.stream_decompressor(raw) as text:
        document: dict[str, Any] = json.loads(text.read())
    return document


def _schemas(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every schema of a metadata file; format version 1 has one more."""
    return [*document.get("schemas", []), *([document["schema"]] if "schema" in document else [])]
