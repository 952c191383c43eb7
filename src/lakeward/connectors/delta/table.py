"""Delta tables that streams land in: created with what the protocol stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeward.connectors import columns
from lakeward.connectors.delta import location
from lakeward.platform.runtime import Lake
from lakeward.spec.sql.statements import quote, quote_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PROPERTIES: Mapping[str, str] = {
    # The position is an entry of its own in a commit; without the feature there is no place for it.
    "delta.feature.domainMetadata": "supported",
    # The audit reads the rows' positions without Spark, and does not know deletion vectors.
    "delta.enableDeletionVectors": "false",
}


def create(session: SparkSession, lake: Lake, table: str, schema: StructType, partition_by: Sequence[str] = ()) -> bool:
    """Create `table` unless it exists, and name it in this application. True when this call created it.

    Args:
        session: any session with Delta.
        table: `namespace.table`.
        schema: the columns; all become optional, because a stream cannot promise more than its source does.
        partition_by: columns.

    Raises:
        SpecError: the warehouse is no folder of this machine.
    """
    folder = location.folder_of(lake, table)
    fresh = not location.exists(folder)
    if fresh:
        settings = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in sorted(PROPERTIES.items()))
        fields = ", ".join(quote(each) for each in partition_by)
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {location.by_path(folder)} ({columns.ddl(session, schema)}) USING delta "
            + (f"PARTITIONED BY ({fields}) " if fields else "")
            + f"TBLPROPERTIES ({settings})"
        )
    location.register(session, lake, table)
    return fresh
