"""Whether an added Delta file can be read on its own: as Parquet, by its own path.

Such a read skips what Delta does to rows on the way (mapped column names, deletion vectors, wider types). A table or a
file that needs one of these is read through Delta, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lakeward.connectors.delta import column_mapping, log
from lakeward.connectors.delta.log import Head

# Reader features that do not change how a file is read, if it has no deletion vector and the table no mapped columns.
_HARMLESS = frozenset(("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"))
# Partition values of these types are the same in a path and in the log.
_PLAIN = frozenset(("string", "date", "boolean", "byte", "short", "integer", "long"))
_NULL = "__HIVE_DEFAULT_PARTITION__"
_GLOB = frozenset("*?[]{}\\")


def why_not_table(head: Head) -> str | None:
    """Why no file of the table can be read by itself, as a clause; None when it can."""
    if column_mapping.mode(head.metadata) != "none":
        return "the table maps column names"
    strange = sorted(set(head.protocol.get("readerFeatures") or ()) - _HARMLESS)
    if strange:
        return f"the table uses {', '.join(strange)}"
    kinds = {field["name"]: field["type"] for field in head.fields}
    unsupported = next((column for column in head.partition_columns if kinds.get(column) not in _PLAIN), None)
    if unsupported is not None:
        return f"the table is partitioned by {unsupported}, which is {kinds.get(unsupported)}"
    return None


def why_not(head: Head, add: Mapping[str, Any]) -> str | None:
    """Why the rows of one added file cannot be read on their own, as a clause; None when they can."""
    path = str(add["path"])
    if add.get("deletionVector"):
        return "a file has a deletion vector"
    if urlparse(path).scheme or path.startswith("/"):
        return "a file is of another table"
    inside = Path(unquote(path))
    values = add.get("partitionValues") or {}
    if _values(inside) != [(column, values.get(column) or None) for column in head.partition_columns]:
        return "the path of a file does not contain its partition values"
    if inside.name.startswith(("_", ".")):
        return "Spark skips a file whose name starts with _ or ."
    place = log.absolute(head.folder, path)
    if _GLOB & set(str(place)):
        return "the path of a file contains glob characters"
    if not place.exists():
        return f"file {inside.name} is missing from the folder, probably removed by VACUUM"
    return None


def _values(inside: Path) -> list[tuple[str, str | None]]:
    """The partition values in a path, as Spark reads them."""
    values = []
    for part in inside.parent.parts:
        name, _, value = part.partition("=")
        values.append((unquote(name), None if value == _NULL else unquote(value)))
    return values
