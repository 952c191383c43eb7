"""Reads a range of a table's commits again as a batch: exactly the files that the streaming plan read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg.source.position import Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ALL = 2**63 - 1


def read_range(session: SparkSession, table: str, key: str, start: Offset, end: Offset) -> DataFrame | None:
    """The rows of the files added after `start` and up to `end`; None if there is no such file.

    Like Iceberg's rewrites, it stages the set of files under a key. A set stays until the next set with the same key.
    """
    jvm: Any = session._jvm
    loaded = java.load(session, table)
    tasks = jvm.java.util.ArrayList()
    for snapshot, first, last in spans(loaded, start, end):
        batch = getattr(jvm.org.apache.iceberg.MicroBatches, "from")(snapshot, loaded.io())
        tasks.addAll(batch.specsById(loaded.specs()).generate(first, last, _ALL, False).tasks())
    if not tasks.size():
        return None
    jvm.org.apache.iceberg.spark.SparkTableCache.get().add(key, loaded)
    jvm.org.apache.iceberg.spark.ScanTaskSetManager.get().stageTasks(loaded, key, tasks)
    return session.read.format("iceberg").load(key)


def spans(table: Any, start: Offset, end: Offset) -> Iterator[tuple[Any, int, int]]:
    """(snapshot, first file, last file exclusive) of every append between two positions, oldest first."""
    appends: list[tuple[Any, int, int]] = []
    current = None if end.snapshot is None else table.snapshot(end.snapshot)
    while current is not None:
        snapshot, is_start = current.snapshotId(), current.snapshotId() == start.snapshot
        last = end.files if snapshot == end.snapshot else int(current.summary().get("added-data-files") or 0)
        first = max(0, start.files) if is_start else 0
        if current.operation() == "append" and last > first:
            appends.append((current, first, last))
        if is_start or current.parentId() is None:
            break
        current = table.snapshot(current.parentId())
    yield from reversed(appends)
