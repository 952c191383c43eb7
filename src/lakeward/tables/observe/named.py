"""The files that manifests and Delta logs name, by path alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

# Field ids of a manifest entry, by Iceberg's specification.
_STATUS, _DATA_FILE, _FILE_PATH = 0, 2, 100
_DELETED: Final = 2  # the status of an entry whose file the snapshot removed
_COLUMNS: Final = ("add.path", "add.deletionVector", "remove.path", "remove.deletionVector")
_IN_THE_FOLDER: Final = "u"  # storage type of a deletion vector whose path is relative to the table


def paths_of(manifest_path: str, io: FileIO) -> Iterator[str]:
    """The data and delete files that a manifest names, without removed ones. No other value of an entry is decoded."""
    with _reader()(io.new_input(manifest_path), _schema()) as entries:
        for status, (path,) in ((entry[0], entry[1]) for entry in entries):
            if status != _DELETED:
                yield path


@cache
def _schema() -> Schema:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, NestedField, StringType, StructType

    path = NestedField(_FILE_PATH, "file_path", StringType(), required=True)
    return Schema(
        NestedField(_STATUS, "status", IntegerType(), required=True),
        NestedField(_DATA_FILE, "data_file", StructType(path), required=True),
    )


@cache
def _reader() -> Any:
    """PyIceberg's reader of Avro files, which skips fields of any type: its own accepts no map that is not read."""
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.avro.reader import FixedReader
    from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
    from pyiceberg.schema import visit_with_partner
    from pyiceberg.typedef import Record
    from pyiceberg.types import DecimalType
    from pyiceberg.utils.decimal import decimal_required_bytes

    class Resolver(ReadSchemaResolver):
        def primitive(self, primitive: Any, expected_primitive: Any) -> Any:
            if expected_primitive is None and isinstance(primitive, DecimalType):
                # PyIceberg skips it as bytes with a length before them, and then reads what is behind the file.
                return FixedReader(decimal_required_bytes(primitive.precision))
            return super().primitive(primitive, expected_primitive)

    class Skipping(SchemaPartnerAccessor):
        def field_partner(self, partner: Any, field_id: int, field_name: str) -> Any:
            return None if partner is None else super().field_partner(partner, field_id, field_name)

        def list_element_partner(self, partner_list: Any) -> Any:
            return None if partner_list is None else super().list_element_partner(partner_list)

        def map_key_partner(self, partner_map: Any) -> Any:
            return None if partner_map is None else super().map_key_partner(partner_map)

        def map_value_partner(self, partner_map: Any) -> Any:
            return None if partner_map is None else super().map_value_partner(partner_map)

    class Paths(AvroFile[Record]):
        def __enter__(self) -> AvroFile[Record]:
            with self.input_file.open() as stream:
                self.decoder = new_decoder(stream.read())
            self.header = self._read_header()
            visit: Any = visit_with_partner
            self.reader = visit(self.header.get_schema(), self.read_schema, Resolver({}, {}), Skipping())
            return self

    return Paths


def statistics_of(metadata: TableMetadata) -> set[str]:
    """The statistics files of a table."""
    return {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}


def paths_in_log(folder: Folder) -> set[str]:
    """The files outside of a Delta table's folder that its log names, removed ones that may still be read too: a
    shallow clone names files of its base. Empty if no commit was ever made: a CREATE TABLE that died leaves a folder.

    Reads the log of a table with any feature, because only paths matter.

    Raises:
        Refused: a part of the log is missing or of a newer form.
        OSError, ValueError: it cannot be read.
    """
    log = DeltaLog(folder)
    listing = log.listing()
    base = listing.checkpoint()
    newest = max(listing.versions, default=base)
    if newest < 0 and not log.begun():
        return set()
    if newest < 0 or not set(range(base + 1, newest + 1)) <= set(listing.versions):
        raise log.unreadable("its log begins with a checkpoint of a newer form, or a commit in its log is missing")
    found: set[str] = set()
    for action in log.checkpoint_actions(listing.checkpoints.get(base, ()), _COLUMNS):
        found |= _outside(action)
    for version in (each for each in listing.versions if each <= newest):
        for action in log.actions(version, "add", "remove"):
            found |= _outside(action)
    return found


def _outside(action: dict[str, Any]) -> set[str]:
    file = action.get("add") or action.get("remove") or {}
    vector = file.get("deletionVector") or {}
    paths = {unquote(path) for path in (file.get("path"),) if path and _absolute(path)}
    if vector and vector.get("storageType") == "p":
        paths.add(unquote(str(vector.get("pathOrInlineDv") or "")))
    return paths


def _absolute(path: str) -> bool:
    return path.startswith("/") or ":/" in path
