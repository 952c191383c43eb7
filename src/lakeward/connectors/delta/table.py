"""Creates the Delta tables of streams, with the table features that the commit protocol needs."""

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
    # The position is stored as domain metadata, in the commit of its rows.
    "delta.feature.domainMetadata": "supported",
    # A stream that reads the table reads whole files: it does not support deletion vectors.
    "delta.enableDeletionVectors": "false",
}


def create(session: SparkSession, lake: Lake, table: str, schema: StructType, partition_by: Sequence[str] = ()) -> bool:
    """Create `table` unless it exists, and register it in this application. Returns whether this call created it.

    Args:
        session: any session with Delta.
        table: `namespace.table`.
        schema: the columns; all become nullable, because a source does not guarantee values.
        partition_by: the partition columns.

    Raises:
        SpecError: the warehouse is not a local folder.
    """
    folder = location.folder_of(lake, table)
    missing = not location.exists(folder)
    if missing:
        settings = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in sorted(PROPERTIES.items()))
        fields = ", ".join(quote(column) for column in partition_by)
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {location.by_path(folder)} ({columns.ddl(session, schema)}) USING delta "
            + (f"PARTITIONED BY ({fields}) " if fields else "")
            + f"TBLPROPERTIES ({settings})"
        )
    location.register(session, lake, table)
    return missing
