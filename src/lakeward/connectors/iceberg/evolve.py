"""Schema evolution of an Iceberg table: adds columns and widens types in one commit that also moves the position.

The position moves to the new generation. So a driver of an older generation, which would land rows without the new
columns, is fenced at its next batch, even if the new generation has not landed any rows yet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import fence
from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.iceberg.qualified import prefix
from lakeward.connectors.schema_evolution import Comparison
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of(session: SparkSession, metadata: Any) -> dict[str, Any]:
    """The table's columns as Spark's JSON of a schema."""
    spark = session._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(metadata.schema())  # type: ignore[union-attr]  # classic sessions have a JVM
    schema: dict[str, Any] = json.loads(spark.json())
    return schema


def evolve(
    session: SparkSession, checked: TableState, schema: dict[str, Any], compared: Comparison, moved: Position | None
) -> None:
    """Change the columns of a table and set its stream's position in one commit.

    Args:
        checked: the table's state when its columns were compared.
        schema: its columns when they were compared.
        compared: the columns to add and to widen.
        moved: the new position; None if the stream has none yet.

    Raises:
        RetryCommit: the table changed in between, or the answer was lost; read it again.
        Blocked: the table was rolled back or replaced in between.
    """
    txn = java.load(session, checked.table).newTransaction()
    start = txn.startMetadata()
    now = java.state_of(start, checked.stream, checked.table)
    if now.raw != checked.raw or schema_of(session, start) != schema:
        raise RetryCommit("the position or the columns changed")
    if (halt := check_table(now, prefix(session, checked.table))) is not None:
        raise halt.error()
    update = txn.updateSchema()
    for column in compared.added:
        *parents, name = column.path
        if parents:
            update.addColumn(".".join(parents), name, _type(session, column.kind))
        else:
            update.addColumn(name, _type(session, column.kind))
    for column, _ in compared.widened:
        update.updateColumn(column.name, _type(session, column.kind).asPrimitiveType())
    update.commit()
    if moved is not None:
        fence.move_tag(txn, checked.stream)
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
