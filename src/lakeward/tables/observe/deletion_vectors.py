"""The data file of each deletion vector. PyIceberg reads manifests with format 2's fields, which lack it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.types import StructType

# Field ids of a manifest entry, by Iceberg's specification.
_DATA_FILE, _REFERENCED_DATA_FILE = 2, 143


def referenced(manifest: ManifestFile, io: FileIO) -> list[str | None]:
    """The data file each entry of a manifest refers to, in order, with deleted entries; None if there are several."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS
    from pyiceberg.typedef import Record

    entry = MANIFEST_ENTRY_SCHEMAS[3]
    at, of = _index(entry.as_struct(), _DATA_FILE), _index(DATA_FILE_TYPE[3], _REFERENCED_DATA_FILE)
    with AvroFile[Record](io.new_input(manifest.manifest_path), entry) as reader:
        return [each[at][of] for each in reader]


def _index(struct: StructType, field_id: int) -> int:
    return next(index for index, field in enumerate(struct.fields) if field.field_id == field_id)
