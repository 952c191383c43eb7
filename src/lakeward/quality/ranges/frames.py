"""Reads the rows of a range from Iceberg over Spark. This is the only module that does.

Iceberg's Spark source ignores unknown options: a misspelled one silently reads the whole table. The option names are
therefore in one place, and a test counts the rows they return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.quality.ranges.range import Read

WRITTEN = "_last_updated_sequence_number"
"""The hidden column of row lineage (format v3)."""
NO_SEQUENCE = -1
SEQUENCE_SQL = f"coalesce({WRITTEN}, {NO_SEQUENCE})"
"""SQL: the sequence number of the commit that last wrote a row; `NO_SEQUENCE` if the row has none."""

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession


def rows(session: SparkSession, table: str, read: Read) -> DataFrame:
    """The rows of `read`: appended after its start up to its end, or those of the table at its end.

    The range of a start must hold appends and compactions only: Iceberg omits rows of an overwrite without an error. A
    row without a sequence number may be new, so it is read with the new rows.
    """
    name = in_lake(session, table)
    if read.start is None:
        whole = session.read.option("versionAsOf", str(read.end)).table(name)
        # As text, which classic and Connect sessions both accept.
        return whole if read.since is None else whole.where(f"{WRITTEN} > {read.since:d} OR {WRITTEN} IS NULL")  # type: ignore[return-value]  # Connect's stubs say a classic frame comes out
    reader = session.read.option("start-snapshot-id", str(read.start)).option("end-snapshot-id", str(read.end))
    return reader.table(name)
