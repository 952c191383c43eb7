"""Give an Iceberg table new columns and wider types: one commit, with the stream's position moved to its generation.

The position moves with it so that a driver of an older generation, which would land rows without the new columns, is
fenced at its next batch, whether the new generation has landed anything yet or not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.schema_evolution import Comparison
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of(session: SparkSession, metadata: Any) -> dict[str, Any]:
    """The table's columns as Spark's JSON of a schema."""
    spark = session._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(metadata.schema())  # type: ignore[union-attr]  # classic sessions have a JVM
    found: dict[str, Any] = json.loads(spark.json())
    return found


def evolve(
    session: SparkSession, checked: TableState, schema: dict[str, Any], compared: Comparison, moved: Position | None
) -> None:
    """Change the columns of the table `checked` was read from, and set its stream's position, both or neither.

    Args:
        checked: the table as it was looked at.
        schema: its columns as they were compared.
        compared: what to add and to widen.
        moved: the position; None where the stream has none yet.

    Raises:
        Redo: the table changed meanwhile, or the answer was lost: look again.
        Blocked: the table was rolled back or replaced since.
    """
    txn = java.load(session, checked.table).newTransaction()
    start = txn.startMetadata()
    now = java.state_of(start, checked.stream, checked.table)
    if now.raw != checked.raw or schema_of(session, start) != schema:
        raise RetryCommit("the position or the columns changed")
    if (halt := check_table(now)) is not None:
        raise halt.error()
    update = txn.updateSchema()
    for column in compared.added:
        *above, name = column.path
        if above:
            update.addColumn(".".join(above), name, _type(session, column.kind))
        else:
            update.addColumn(name, _type(session, column.kind))
    for column, _ in compared.widened:
        update.updateColumn(column.name, _type(session, column.kind).asPrimitiveType())
    update.commit()
    if moved is not None:
        txn.updateProperties().set(position.key(checked.stream), moved.to_json()).commit()
    failpoints.hit("before-evolve")
    try:
        txn.underlyingOps().commit(start, txn.currentMetadata())
    except Exception as error:
        if java.trouble(error) is java.Trouble.OTHER:
            raise
        raise RetryCommit(f"changing the columns: {java.message(error)}") from error
    failpoints.hit("after-evolve")


def _type(session: SparkSession, kind: Any) -> Any:
    jvm: Any = session._jvm
    spark = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(kind))
    return jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(spark)
