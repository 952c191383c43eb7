"""Deletion vectors written here by Delta's protocol; Delta's own are read in tests/spark/connectors/delta."""

from __future__ import annotations

import binascii
import struct
from base64 import b85encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_log import add, commit, remove, table
from pyroaring import BitMap

from lakeward.connectors.delta import log
from lakeward.connectors.delta.deletion_vectors import _B85, _Z85, deleted_rows
from lakeward.platform.errors import Refused

ROWS = [0, 3, 70_000, *range(200_000, 205_000), (5 << 32) + 7]
NAME = UUID(int=5)


def bitmap(rows: list[int]) -> bytes:
    parts = sorted({row >> 32 for row in rows})
    data = struct.pack("<iq", 1681511377, len(parts))
    for part in parts:
        data += struct.pack("<I", part) + BitMap([row & 0xFFFFFFFF for row in rows if row >> 32 == part]).serialize()
    return data


def z85(data: bytes) -> str:
    return b85encode(data).decode().translate(str.maketrans(_B85, _Z85))


def stored(file: Path, data: bytes, checksum: int | None = None) -> int:
    """Write a vector behind another one; returns its offset."""
    checksum = binascii.crc32(data) if checksum is None else checksum
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\x01" + b"other" + struct.pack(">i", len(data)) + data + struct.pack(">I", checksum))
    return 6


@pytest.fixture
def vector(tmp_path: Path) -> dict[str, Any]:
    """A vector in the table's folder."""
    data = bitmap(ROWS)
    offset = stored(tmp_path / "ab" / f"deletion_vector_{NAME}.bin", data)
    return {
        "storageType": "u", "pathOrInlineDv": "ab" + z85(NAME.bytes), "offset": offset, "sizeInBytes": len(data),
        "cardinality": len(ROWS),
    }  # fmt: skip


def test_a_vector_in_the_folder_at_a_path_and_in_the_log(tmp_path: Path, vector: dict[str, Any]) -> None:
    assert deleted_rows(tmp_path, vector).to_pylist() == ROWS

    path = f"file://{tmp_path}/ab/deletion_vector_{NAME}.bin"
    assert deleted_rows(tmp_path / "x", vector | {"storageType": "p", "pathOrInlineDv": path}).to_pylist() == ROWS

    few = bitmap([1, 2])
    text = z85(few + bytes(-len(few) % 4))
    inline = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(few), "cardinality": 2}
    assert deleted_rows(tmp_path, inline).to_pylist() == [1, 2]


def test_a_vector_that_is_not_what_the_log_says_is_refused(tmp_path: Path, vector: dict[str, Any]) -> None:
    data = bitmap([1])
    stored(tmp_path / "bad" / f"deletion_vector_{NAME}.bin", data, checksum=1)
    wrong = {
        "the log says 7": vector | {"cardinality": 7},
        "checksum is wrong": vector | {"pathOrInlineDv": "bad" + z85(NAME.bytes), "sizeInBytes": len(data)},
        "No such file": vector | {"pathOrInlineDv": "no" + z85(NAME.bytes)},
        "'x' is not known": vector | {"storageType": "x"},
        "format 0 is not known": {
            "storageType": "i", "pathOrInlineDv": z85(bytes(12)), "sizeInBytes": 12, "cardinality": 0,
        },
    }  # fmt: skip
    for why, each in wrong.items():
        with pytest.raises(Refused) as refused:
            deleted_rows(tmp_path, each)
        assert why in str(refused.value.why)


def test_a_scan_leaves_deleted_rows_out(tmp_path: Path) -> None:
    kinds = {"_kafka_topic": pa.string(), "_kafka_partition": pa.int32(), "_kafka_offset": pa.int64()}
    rows = pa.table([pa.array(["t"] * 6), pa.array([0] * 6, pa.int32()), pa.array(range(10, 16), pa.int64())], [*kinds])
    for name in ("one", "two"):
        pq.write_table(rows, tmp_path / name)
    data = bitmap([1, 5])
    padded = z85(data + bytes(-len(data) % 4))
    inline = {"storageType": "i", "pathOrInlineDv": padded, "sizeInBytes": len(data), "cardinality": 2}
    commit(tmp_path, 0, table(""), add("one", 1), add("two", 1))
    deleted = add("one", 1)
    deleted["add"]["deletionVector"] = inline
    commit(tmp_path, 1, deleted, remove("one"))

    found = log.read(tmp_path, deletion_vectors=True)
    assert found is not None
    offsets = [row["_kafka_offset"] for batch in log.scan(found)(["t"], None) for row in batch.to_pylist()]
    assert sorted(offsets) == sorted([10, 12, 13, 14, *range(10, 16)])

    commit(tmp_path, 2, add("one", 1), remove("one"))  # a vector ends with its file
    restored = log.read(tmp_path, deletion_vectors=True)
    assert restored is not None
    assert sum(len(batch) for batch in log.scan(restored)(["t"], None)) == 12
