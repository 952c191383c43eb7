"""Creates the Iceberg tables of streams, with the properties that the commit protocol and maintenance need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.connectors import columns
from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg.qualified import catalog_of, in_lake, local_parts, namespace_in_lake
from lakeward.platform.errors import Refused
from lakeward.spec.model.sinks import IcebergSink
from lakeward.spec.model.table_layout import PartitionField

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PROPERTIES: Mapping[str, str] = {
    "format-version": "2",
    "write.wap.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.retry.num-retries": "10",
    "commit.retry.min-wait-ms": "200",
}
"""The properties of every created table; a partitioned one also gets `write.distribution-mode=hash`."""


def create(
    session: SparkSession,
    table: str,
    schema: StructType,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> bool:
    """Create `table` (and its namespace) unless it exists. True when this call created it.

    Args:
        session: any session with the lake's catalog.
        table: `namespace.table`.
        schema: the columns; all become optional, because a source does not guarantee values.
        partition_by: `origin`, `months(time_hour)`, `bucket(16, id)` ...
        properties: the user's table properties; they override the defaults, except `write.wap.enabled`.

    Raises:
        Refused: `write.wap.enabled` is not true or `format-version` is 1: exactly once is impossible with these.
    """
    settings = {**PROPERTIES, **({"write.distribution-mode": "hash"} if partition_by else {}), **(properties or {})}
    _check(table, settings)
    if session.catalog.tableExists(in_lake(session, table)):
        return False
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace_in_lake(session, table)}")
    return _create(session, table, schema, [PartitionField(field) for field in partition_by], settings)


def _create(
    session: SparkSession,
    table: str,
    schema: StructType,
    partition_by: Sequence[PartitionField],
    properties: Mapping[str, str],
) -> bool:
    """Create a table by Iceberg's API; False if another process was first.

    Spark's SQL numbers columns from 0, and servers of REST catalogs that are written in Go take a partition field of
    column 0 for one without a column. Iceberg numbers from 1. The catalog numbers the columns again in either case.
    """
    jvm: Any = session._jvm
    iceberg = jvm.org.apache.iceberg
    given = session.createDataFrame([], columns.relaxed(schema.jsonValue()))._jdf.schema()
    numbered = iceberg.types.TypeUtil.assignIncreasingFreshIds(iceberg.spark.SparkSchemaUtil.convert(given))
    spec = iceberg.PartitionSpec.builderFor(numbered).caseSensitive(False)
    for field in partition_by:
        width = () if field.number is None else (field.number,)
        getattr(spec, field.transform.removesuffix("s"))(field.column, *width)
    catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(session._jsparkSession, catalog_of(session, table))
    parts = local_parts(session, table)
    gateway: Any = session.sparkContext._gateway
    name = gateway.new_array(jvm.java.lang.String, len(parts))
    for index, part in enumerate(parts):
        name[index] = part
    builder = catalog.buildTable(iceberg.catalog.TableIdentifier.of(name), numbered)
    try:
        builder.withPartitionSpec(spec.build()).withProperties(dict(properties)).create()
    except Exception as error:
        if java.exists(error):
            return False
        raise
    return True


def how_rows_change(sink: IcebergSink) -> dict[str, str]:
    """The row-level write modes of an upsert sink: merge-on-read, as batches are small, unless the spec sets one."""
    if sink.mode != "upsert":
        return {}
    how = sink.write or "merge-on-read"
    return {f"write.{operation}.mode": how for operation in ("delete", "update", "merge")}


def _check(table: str, properties: Mapping[str, str]) -> None:
    if properties["write.wap.enabled"].lower() != "true":
        raise Refused(
            f"Table {table} cannot be created with write.wap.enabled={properties['write.wap.enabled']}",
            why="batches must be staged before they are published, to land exactly once",
            next="remove write.wap.enabled from the sink's properties",
            code="LW-3103",
        )
    if properties["format-version"] == "1":
        raise Refused(
            f"Table {table} cannot be created with format-version=1",
            why="format 1 has no sequence numbers, which distinguish a rolled-back table from an expired history",
            next="use format-version 2 (default) or 3",
            code="LW-3104",
        )
