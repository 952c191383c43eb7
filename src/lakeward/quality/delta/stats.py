"""Column statistics from a Delta log: row count, nulls, least and greatest value of added files. Pure.

As for Iceberg (`quality.ranges.file_statistics`): a value that may be inexact (cut text and times, NaN left out, bounds
that are not tight) is unknown, never estimated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from lakeward.connectors.delta.log import Head
from lakeward.quality.ranges.file_statistics import ColumnFacts, FileStatistics

_WHOLE = ("byte", "short", "integer", "long")


def file_statistics(head: Head, adds: Sequence[Mapping[str, Any]]) -> FileStatistics | None:
    """Statistics over the rows of the files; None without files, or if a file does not state its row count."""
    files = [
        (_by_column(head, json.loads(add.get("stats") or "{}")), head.by_column(add.get("partitionValues") or {}))
        for add in adds
    ]
    counts: list[Any] = [stats.get("numRecords") for stats, _ in files]
    if not files or None in counts or any(add.get("deletionVector") for add in adds):
        return None
    columns = {}
    for field in head.fields:
        name, kind = str(field["name"]), field["type"]
        if name in head.partition_columns:
            nulls = sum(stats["numRecords"] for stats, values in files if not values.get(name))
            columns[name] = ColumnFacts(nulls)
        elif isinstance(kind, str):
            columns[name] = _column([stats for stats, _ in files], name, kind)
    return FileStatistics(sum(counts), columns)


def _by_column(head: Head, stats: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of a file by the columns' names of today: after a rename another column may have an old name."""
    return {key: head.by_column(each) if isinstance(each, Mapping) else each for key, each in stats.items()}


def _column(files: Sequence[Mapping[str, Any]], name: str, kind: str) -> ColumnFacts:
    nulls = [file.get("nullCount", {}).get(name) for file in files]
    if None in nulls or not all(file.get("tightBounds", True) for file in files):
        return ColumnFacts()
    total = sum(nulls)
    valued = [file for file, count in zip(files, nulls, strict=True) if count < file["numRecords"]]
    lows = [_value(kind, file.get("minValues", {}).get(name)) for file in valued]
    highs = [_value(kind, file.get("maxValues", {}).get(name)) for file in valued]
    if any(each is None for each in (*lows, *highs)) or (not valued and _value(kind, 0) is None and kind != "date"):
        return ColumnFacts(total)
    return ColumnFacts(total, True, min(lows, default=None), max(highs, default=None))


def _value(kind: str, stated: Any) -> Any:
    """A bound as Spark would return it; None when it is missing or not exact."""
    if kind in _WHOLE:
        return stated if type(stated) is int else None
    if kind in ("float", "double"):  # NaN and the infinities are stated as text
        if type(stated) not in (int, float):
            return None
        return float(stated) if kind == "double" else struct.unpack("f", struct.pack("f", stated))[0]
    if kind == "date" and isinstance(stated, str):
        try:
            return date.fromisoformat(stated)
        except ValueError:
            return None
    return None
