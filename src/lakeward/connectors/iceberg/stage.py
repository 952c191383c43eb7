"""Stages a batch by write-audit-publish (WAP): writes its files as a snapshot of no branch, and finds it by its id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.change import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WAP_ID = "spark.wap.id"
_SNAPSHOT_PROPERTY = f"spark.sql.iceberg.snapshot-property.{jvm.ATTEMPT}"


@dataclass(frozen=True)
class Staged:
    """A staged snapshot.

    Attributes:
        snapshot, parent: ids; `parent` is main's head at the time of the write, None in an empty table.
        attempt: `<stream>/<seq>/<nonce>`.
        rows: records it adds.
    """

    snapshot: int
    parent: int | None
    attempt: str
    rows: int


@dataclass(frozen=True)
class WentToMain:
    """A write that went to main: WAP was switched off between the check and the write."""

    snapshot: int
    parent: int | None


def write(rows: DataFrame, table: str, attempt: str, change: Change) -> int | None:
    """Write `rows` to `table` as a staged snapshot; returns the number of applied rows, if `change` knows it."""
    with _staging(rows.sparkSession, attempt):
        return change.write(rows, table)


def find(table: Any, attempt: str) -> Staged | WentToMain | None:
    """The snapshot written under `attempt`, in a freshly loaded table; None if it is missing."""
    metadata = jvm.metadata_of(table)
    snapshots = metadata.snapshots()
    for index in range(snapshots.size() - 1, -1, -1):  # the newest is last, and nearly always the one
        snapshot = snapshots.get(index)
        summary = snapshot.summary()
        if summary.get(jvm.ATTEMPT) != attempt:
            continue
        if summary.get("wap.id") != attempt:
            return WentToMain(snapshot.snapshotId(), snapshot.parentId())
        rows = int(summary.get("added-records") or 0)
        return Staged(snapshot.snapshotId(), snapshot.parentId(), attempt, rows)
    return None


@contextmanager
def _staging(session: SparkSession, attempt: str) -> Iterator[None]:
    """Make the batch's cloned session stage its writes; set for one write, always unset after it."""
    session.conf.set(_WAP_ID, attempt)
    session.conf.set(_SNAPSHOT_PROPERTY, attempt)
    try:
        yield
    finally:
        session.conf.unset(_WAP_ID)
        session.conf.unset(_SNAPSHOT_PROPERTY)
