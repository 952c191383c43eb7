"""Tables that streams land in: created with the properties the protocol and maintenance stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeward.connectors import columns
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import CATALOG
from lakeward.spec.model.sinks import IcebergSink
from lakeward.spec.model.table_layout import PartitionField
from lakeward.spec.sql.statements import quote_table, quote_text

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
"""What every table is created with; `write.distribution-mode=hash` is added where it is partitioned."""


def create(
    session: SparkSession,
    table: str,
    schema: StructType,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> bool:
    """Create `table` (and its namespace) unless it exists. True when this call created it.

    Args:
        session: any session with the catalog `lake`.
        table: `namespace.table`.
        schema: the columns; all become optional, because a stream cannot promise more than its source does.
        partition_by: `origin`, `months(time_hour)`, `bucket(16, id)` ...
        properties: the user's own table properties; they win over ours, but for `write.wap.enabled`.

    Raises:
        Refused: `write.wap.enabled` or `format-version` 1 was asked for: exactly once cannot stand on that.
    """
    wanted = {**PROPERTIES, **({"write.distribution-mode": "hash"} if partition_by else {}), **(properties or {})}
    _check(table, wanted)
    if session.catalog.tableExists(quote_table(table, CATALOG)):
        return False
    namespace = table.rpartition(".")[0]
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_table(namespace, CATALOG)}")
    fields = ", ".join(PartitionField(each).sql for each in partition_by)
    settings = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in sorted(wanted.items()))
    session.sql(
        f"CREATE TABLE IF NOT EXISTS {quote_table(table, CATALOG)} ({columns.ddl(session, schema)}) USING iceberg "
        + (f"PARTITIONED BY ({fields}) " if fields else "")
        + f"TBLPROPERTIES ({settings})"
    )
    return True


def how_rows_change(sink: IcebergSink) -> dict[str, str]:
    """Table properties where batches change rows: beside the data, as batches are small, unless the spec says it."""
    if sink.mode != "upsert":
        return {}
    how = sink.write or "merge-on-read"
    return {f"write.{operation}.mode": how for operation in ("delete", "update", "merge")}


def _check(table: str, properties: Mapping[str, str]) -> None:
    if properties["write.wap.enabled"].lower() != "true":
        raise Refused(
            f"Table {table} cannot be created with write.wap.enabled={properties['write.wap.enabled']}",
            why="batches are staged before they are published; that is what makes them land once",
            next="remove write.wap.enabled from the sink's properties",
            code="LW-3103",
        )
    if properties["format-version"] == "1":
        raise Refused(
            f"Table {table} cannot be created with format-version=1",
            why="format 1 has no sequence numbers, by which a rolled-back table is told from an expired history",
            next="use format-version 2 (default) or 3",
            code="LW-3104",
        )
