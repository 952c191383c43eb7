"""Delta logs written by hand: commits a minute apart, no data files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lakeward.connectors.delta import log

START_MS = 1_772_000_000_000


def commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    """One version, stamped `version` minutes after the start."""
    file = folder / log.LOG / f"{version:020d}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions))
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
