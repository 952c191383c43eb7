"""Give a Delta table new columns: first the stream's position is moved to its generation, then the columns are added.

Two commits, as Delta's own ALTER TABLE takes nothing along. In this order a driver of an older generation is fenced
before there is a column it does not know; a kill in between leaves a table that the next start gives its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import jvm, location
from lakeward.connectors.delta.check import TableState, check_table
from lakeward.connectors.schema_evolution import Comparison, sql_type
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fence(session: SparkSession, folder: Path, checked: TableState, build: Callable[[int], Position]) -> Position:
    """Commit a position without any rows.

    Args:
        build: version -> the position that names it.

    Raises:
        RetryCommit: the table changed meanwhile: look again.
        Blocked: it was restored or replaced since it was looked at.
    """
    txn = jvm.begin(session, folder, checked.table)
    now = jvm.state_of(txn.snapshot(), folder, checked.stream, checked.table)
    if now.raw != checked.raw:
        raise RetryCommit("the position moved")
    if (halt := check_table(now)) is not None:
        raise halt.error()
    moved = build(now.version + 1)
    none = RunningBatch(moved.query_id, moved.batch, moved.end, moved.end, moved.topic_ids)
    try:
        jvm.commit(session, txn, [], moved, none, position.key(checked.stream))
    except Exception as error:
        if jvm.is_concurrent_change(error):
            raise RetryCommit("another commit came first") from error
        raise
    failpoints.hit("before-evolve")
    return moved


def add(session: SparkSession, folder: Path, compared: Comparison) -> None:
    """Add the columns that a comparison found; who has them already has them.

    Raises:
        RetryCommit: another commit came first.
    """
    columns = ", ".join(f"{each.sql} {sql_type(each.kind)}" for each in compared.added)
    try:
        session.sql(f"ALTER TABLE {location.by_path(folder)} ADD COLUMNS ({columns})")
    except Exception as error:
        if jvm.is_concurrent_change(error) or "ALREADY_EXISTS" in str(error):
            raise RetryCommit("another commit came first") from error
        raise
    failpoints.hit("after-evolve")
