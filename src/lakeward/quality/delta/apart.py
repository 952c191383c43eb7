"""Whether the rows of an added file can be read without the rest of the table: as Parquet, by the file's own path.

What Delta does to a file's rows on the way (mapped column names, deletion vectors, wider types) is not done then, so a
table or a file that needs it is read through Delta, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lakeward.connectors.delta import log
from lakeward.connectors.delta.log import Head

# Features of a reader that change nothing about a file without a deletion vector, in a table without mapped columns.
_HARMLESS = frozenset(("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"))
# Partition values of these read the same from a path as from the log.
_PLAIN = frozenset(("string", "date", "boolean", "byte", "short", "integer", "long"))
_NULL = "__HIVE_DEFAULT_PARTITION__"
_GLOB = frozenset("*?[]{}\\")


def why_not_table(head: Head) -> str | None:
    """Why no file of the table can be read by itself, as a clause; None when it can."""
    if head.properties.get("delta.columnMapping.mode", "none") != "none":
        return "the table maps column names"
    strange = sorted(set(head.protocol.get("readerFeatures") or ()) - _HARMLESS)
    if strange:
        return f"the table uses {', '.join(strange)}"
    kinds = {each["name"]: each["type"] for each in head.fields}
    odd = next((each for each in head.partition_columns if kinds.get(each) not in _PLAIN), None)
    if odd is not None:
        return f"the table is partitioned by {odd}, which is {kinds.get(odd)}"
    return None


def why_not(head: Head, add: Mapping[str, Any]) -> str | None:
    """Why the rows of one added file cannot, as a clause; None when they can."""
    path = str(add["path"])
    if add.get("deletionVector"):
        return "a file has a deletion vector"
    if urlparse(path).scheme or path.startswith("/"):
        return "a file is of another table"
    inside = Path(unquote(path))
    values = add.get("partitionValues") or {}
    if _values(inside) != [(each, values.get(each) or None) for each in head.partition_columns]:
        return "the path of a file does not tell its partition"
    if inside.name.startswith(("_", ".")):
        return "the name of a file hides it"
    place = log.absolute(head.folder, path)
    if _GLOB & set(str(place)):
        return "the path of a file reads like a pattern"
    if not place.exists():
        return f"file {inside.name} is gone from the folder, as a VACUUM takes files"
    return None


def _values(inside: Path) -> list[tuple[str, str | None]]:
    """The partition values a path tells, as Spark reads them."""
    told = []
    for part in inside.parent.parts:
        name, _, value = part.partition("=")
        told.append((unquote(name), None if value == _NULL else unquote(value)))
    return told
