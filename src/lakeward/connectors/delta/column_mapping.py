"""Column mapping of a Delta table: the names under which its files, its statistics and its partitions have the columns.

Such a table (`delta.columnMapping.mode` is `name` or `id`) may rename and drop columns without a rewrite: the log and
the files keep the name that a column was created with. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MODE = "delta.columnMapping.mode"
MODES = ("none", "name", "id")
SET_BY_OWNER = f"set {MODE} to none, name or id by the engine that wrote it: only its owner knows how they are stored"
"""The next step for a table with another mode: neither Spark nor Lakeward can read its columns."""
_STORED_NAME, _STORED_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


def mode(metadata: Mapping[str, Any]) -> str:
    """`none`, `name`, or `id`."""
    return str((metadata.get("configuration") or {}).get(MODE, "none")).lower()


def stored_names(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Top-level column -> its name in files and statistics. Without column mapping they are the same.

    Args:
        metadata: the action `metaData` of the log.
    """
    mapped = mode(metadata) != "none"
    return {
        str(field["name"]): str(
            (field.get("metadata") or {}).get(_STORED_NAME, field["name"]) if mapped else field["name"]
        )
        for field in _fields(metadata)
    }


def stored_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Top-level column -> its field id in files; empty unless files are read by ids (mode `id`)."""
    if mode(metadata) != "id":
        return {}
    found = {str(field["name"]): (field.get("metadata") or {}).get(_STORED_ID) for field in _fields(metadata)}
    return {name: int(each) for name, each in found.items() if each is not None}


def by_column(metadata: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the log says by stored name (partition values, statistics), by the names that the columns have now."""
    if mode(metadata) == "none":
        return dict(values)
    names = {stored: name for name, stored in stored_names(metadata).items()}
    return {names[stored]: value for stored, value in values.items() if stored in names}


def _fields(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(metadata.get("schemaString") or '{"fields": []}')["fields"]
    return fields
