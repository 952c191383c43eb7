"""The rows that a deletion vector deletes, read without Spark, by Delta's protocol.

A vector is a 64-bit roaring bitmap of row numbers, in the table's folder, at an absolute path, or inside the log.
"""

from __future__ import annotations

import binascii
import struct
import uuid
from base64 import b85decode
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyroaring import BitMap

from lakeward.connectors.delta.folder import Folder, at, plain
from lakeward.platform.errors import Refused

_MAGIC: Final = 1681511377
_UUID_TEXT: Final = 20
"""Characters of the encoded UUID at the end of a relative path; what comes before is a folder."""
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = str.maketrans(_Z85, _B85)


def deleted_rows(folder: Folder, vector: Mapping[str, Any]) -> pa.Array:
    """The numbers of the deleted rows in their data file, ascending, from 0; as int64.

    Args:
        folder: the table's folder.
        vector: `deletionVector` of an `add` action.

    Raises:
        Refused: the vector cannot be read, or it has another number of rows than the log says.
    """
    try:
        found = _rows(_bytes(folder, vector))
    except (OSError, ValueError, struct.error, binascii.Error) as error:
        raise _unreadable(folder, str(error) or type(error).__name__) from error
    if len(found) != int(vector["cardinality"]):
        raise _unreadable(folder, f"it has {len(found)} rows, and the log says {vector['cardinality']}")
    return found


def _bytes(folder: Folder, vector: Mapping[str, Any]) -> bytes:
    """The serialized bitmap.

    Raises:
        OSError: the file does not exist, or cannot be read.
        ValueError: it is not what the log describes.
    """
    kind, text, size = str(vector["storageType"]), str(vector["pathOrInlineDv"]), int(vector["sizeInBytes"])
    if kind == "i":
        return _decoded(text)[:size]
    if kind not in ("u", "p"):
        raise ValueError(f"its storage type {kind!r} is not known")
    with _place(folder, vector).open("rb") as file:
        file.seek(int(vector.get("offset") or 0))
        stored = file.read(4 + size + 4)
    (stated,), data = struct.unpack(">i", stored[:4]), stored[4 : 4 + size]
    (checksum,) = struct.unpack(">I", stored[4 + size :])
    if stated != size or binascii.crc32(data) != checksum:
        raise ValueError("its size or its checksum is wrong")
    return data


def file_of(folder: Folder, vector: Mapping[str, Any]) -> Folder | None:
    """The file of a deletion vector; None if it is stored in the log itself."""
    return None if vector["storageType"] == "i" else _place(folder, vector)


def _place(folder: Folder, vector: Mapping[str, Any]) -> Folder:
    text = str(vector["pathOrInlineDv"])
    return _relative(folder, text) if vector["storageType"] == "u" else at(folder, plain(text))


def _relative(folder: Folder, text: str) -> Folder:
    prefix, encoded = text[:-_UUID_TEXT], text[-_UUID_TEXT:]
    return folder / prefix / f"deletion_vector_{uuid.UUID(bytes=_decoded(encoded))}.bin"


def _decoded(text: str) -> bytes:
    """Z85: base 85 as Python's, with another alphabet."""
    return b85decode(text.translate(_TO_B85))


def _rows(data: bytes) -> pa.Array:
    """The row numbers of a bitmap: magic number, number of 32-bit bitmaps, and each with the upper 32 bits before."""
    magic, bitmaps = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        raise ValueError(f"its format {magic} is not known")
    at = struct.calcsize("<iq")
    parts: list[pa.Array] = []
    for _ in range(bitmaps):
        (upper,) = struct.unpack_from("<I", data, at)
        bitmap = BitMap.deserialize(data[at + 4 :])
        parts.append(pa.array([(upper << 32) + row for row in bitmap], pa.int64()))
        at += 4 + len(bitmap.serialize())
    return pa.concat_arrays(parts) if parts else pa.array([], pa.int64())


def _unreadable(folder: Folder, why: str) -> Refused:
    return Refused(
        f"Cannot read a deletion vector of the Delta table in {folder}",
        why=why,
        next="compare the table's log with its files: lakeward tables health; a restore from a backup brings both back",
        code="LW-3412",
    )
