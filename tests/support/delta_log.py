"""Delta logs written by hand: commits a minute apart without data files, and small tables with them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.connectors.delta import log
from lakeward.connectors.delta.folder import Folder, StorePath
from lakeward.connectors.file_access import FileAccess

START_MS = 1_772_000_000_000


def put(file: Folder, content: bytes) -> None:
    """Write a file, on a disk or on an object store."""
    FileAccess(file.lake if isinstance(file, StorePath) else None).write(str(file), content)


def commit(folder: Folder, version: int, *actions: dict[str, Any]) -> None:
    """One version; on a disk stamped `version` minutes after the start."""
    file = folder / log.LOG / f"{version:020d}.json"
    put(file, "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode())
    if isinstance(file, Path):
        os.utime(file, (START_MS / 1000 + 60 * version,) * 2)


def table(columns: str = "day", kind: str = "date") -> dict[str, Any]:
    """Its metadata: a row of `id` in partitions of `columns`, which are of type `kind`."""
    fields = [{"name": "id", "type": "long"}, *({"name": each, "type": kind} for each in columns.split() if each)]
    return {
        "metaData": {
            "id": "u",
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": columns.split(),
            "configuration": {},
        }
    }


def add(
    path: str, size: int, rows: int = 10, *, at: int = 0, rewrite: bool = False, **partition: str | None
) -> dict[str, Any]:
    """A file, written `at` minutes after the start."""
    return {
        "add": {
            "path": path, "size": size, "partitionValues": partition, "modificationTime": START_MS + 60_000 * at,
            "dataChange": not rewrite, "stats": json.dumps({"numRecords": rows}),
        }
    }  # fmt: skip


def remove(path: str, *, at: int = 0, rewrite: bool = False) -> dict[str, Any]:
    """A file taken out, `at` minutes after the start."""
    return {"remove": {"path": path, "deletionTimestamp": START_MS + 60_000 * at, "dataChange": not rewrite}}


PLAIN = pa.schema(
    {
        "id": pa.int64(), "carrier": pa.string(), "delay": pa.float64(), "_kafka_partition": pa.int32(),
        "_kafka_offset": pa.int64(),
    }
)  # fmt: skip
"""The columns of most tables of checks, of both formats."""
_TYPES = {
    pa.int64(): "long", pa.int32(): "integer", pa.float64(): "double", pa.string(): "string",
    pa.timestamp("us", "UTC"): "timestamp",
}  # fmt: skip


def create(folder: Path, columns: pa.Schema) -> None:
    """A table without rows, as `CREATE TABLE` of Delta's Spark module leaves it."""
    fields = [{"name": each.name, "type": _TYPES[each.type], "nullable": True, "metadata": {}} for each in columns]
    schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    _write(
        folder,
        0,
        _info("CREATE TABLE", {"isManaged": "false", "partitionBy": "[]", "properties": "{}"}),
        {
            "metaData": {
                "id": str(uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                "partitionColumns": [], "configuration": {}, "createdTime": _now(),
            }
        },
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    )  # fmt: skip


def append(folder: Path, rows: pa.Table) -> bool:
    """Commit rows in two files, with the statistics that Delta's Spark module states.

    Returns:
        False, and nothing is written, if the table is no longer as `create` made it: its properties, columns or
        protocol may ask more of a writer.
    """
    commits = sorted((folder / log.LOG).glob("*.json"))
    actions = (json.loads(line) for file in commits[1:] for line in file.read_text().splitlines())
    if commits[0].stem != f"{0:020d}" or any(action.keys() & {"metaData", "protocol"} for action in actions):
        return False
    half = rows.num_rows // 2
    added = [_file(folder, part) for part in (rows.slice(0, half), rows.slice(half)) if part.num_rows]
    _write(folder, len(commits), _info("WRITE", {"mode": "Append", "partitionBy": "[]"}), *added)
    return True


def _file(folder: Path, rows: pa.Table) -> dict[str, Any]:
    path = folder / f"part-00000-{uuid4()}-c000.snappy.parquet"
    pq.write_table(rows, path)
    plain = [each.name for each in rows.schema if not pa.types.is_timestamp(each.type)]
    bounds = {name: pc.min_max(rows[name]).as_py() for name in plain}
    stats = {
        "numRecords": rows.num_rows,
        **{f"{end}Values": {name: each[end] for name, each in bounds.items() if each[end] is not None}
           for end in ("min", "max")},
        "nullCount": {name: rows[name].null_count for name in rows.column_names},
    }  # fmt: skip
    return {
        "add": {
            "path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": _now(),
            "dataChange": True, "stats": json.dumps(stats, separators=(",", ":")),
        }
    }  # fmt: skip


def _info(operation: str, parameters: dict[str, str]) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": _now(), "operation": operation, "operationParameters": parameters, "isBlindAppend": True,
            "txnId": str(uuid4()),
        }
    }  # fmt: skip


def _write(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    file = folder / log.LOG / f"{version:020d}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x") as sink:
        sink.writelines(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def _now() -> int:
    return time.time_ns() // 1_000_000
