"""Schema evolution of a Delta table: moves the stream's position to the new generation, then adds the columns.

These are two commits, because Delta's ALTER TABLE cannot commit a position. In this order a driver of an older
generation is fenced before the table has a column that it does not know. After a kill in between, the next start adds
the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import jvm, location
from lakeward.connectors.delta.check import TableState, check_table
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.schema_evolution import Comparison, sql_type
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fence(session: SparkSession, folder: Folder, checked: TableState, build: Callable[[int], Position]) -> Position:
    """Commit a position without any rows.

    Args:
        build: version -> the position that names it.

    Raises:
        RetryCommit: the table changed since it was read.
        Blocked: the table was restored or replaced since it was read.
    """
    txn = jvm.begin(session, folder, checked.table)
    now = jvm.state_of(txn.snapshot(), folder, checked.stream, checked.table)
    if now.raw != checked.raw:
        raise RetryCommit("the position moved")
    if (reason := check_table(now)) is not None:
        raise reason.error()
    moved = build(now.version + 1)
    empty = RunningBatch(moved.query_id, moved.batch, moved.end, moved.end, moved.topic_ids)
    try:
        jvm.commit(session, txn, [], moved, empty, position.key(checked.stream))
    except Exception as error:
        if jvm.is_concurrent_change(error):
            raise RetryCommit("another commit came first") from error
        raise
    failpoints.hit("before-evolve")
    return moved


def add(session: SparkSession, folder: Folder, compared: Comparison) -> None:
    """Add the columns that the table lacks according to `compared`.

    Raises:
        RetryCommit: another commit came first, e.g. one that added the same columns.
    """
    columns = ", ".join(f"{column.sql} {sql_type(column.kind)}" for column in compared.added)
    try:
        session.sql(f"ALTER TABLE {location.by_path(folder)} ADD COLUMNS ({columns})")
    except Exception as error:
        if jvm.is_concurrent_change(error) or "ALREADY_EXISTS" in str(error):
            raise RetryCommit("another commit came first") from error
        raise
    failpoints.hit("after-evolve")
