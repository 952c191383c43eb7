"""Rows of a Delta table over Spark Connect: of the files some versions added, or of the whole table at a version.

Added files are read as Parquet, by their own paths: at a cost that goes with the new rows, also when a compaction has
taken them out of the table since. That they are all read, with as many rows as the log says, is seen before any check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

from lakeward.connectors.delta import log
from lakeward.connectors.delta.log import Head
from lakeward.platform.errors import LakewardError
from lakeward.quality.delta.commits import rows_of
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

# Spark lists more paths than this by a job of as many tasks; on this machine's disk a loop is faster.
_THRESHOLD, _SERIAL = "spark.sql.sources.parallelPartitionDiscovery.threshold", "100000"

# Delta refuses a version, unless it is the newest, that is older than what a VACUUM may have taken: 7 days by default.
_BY_AGE = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


def whole(session: SparkSession, head: Head, version: int) -> DataFrame:
    """The table at a version; that files of it are gone is told by opening them, not by its age."""
    session.conf.set(_BY_AGE, "false")
    reader: Any = session.read  # Connect's stubs say classic frames come out
    found: DataFrame = reader.format("delta").option("versionAsOf", str(version)).load(str(head.folder))
    return found


def of_files(session: SparkSession, head: Head, adds: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The rows of added files, with the columns the table has now.

    Raises:
        LakewardError: the files do not have the rows the log says, or Spark would not read all of them.
    """
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(head.metadata["schemaString"]))
    if not adds:
        return cast("DataFrame", session.createDataFrame([], schema))
    for each in adds:
        _counted(head, each)
    session.conf.set(_THRESHOLD, _SERIAL)
    reader: Any = session.read.schema(schema).option("basePath", str(head.folder))
    reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    frame: DataFrame = reader.parquet(*(str(log.absolute(head.folder, each["path"])) for each in adds))
    if (seen := len(frame.inputFiles())) != len(adds):
        raise _wrong(head, f"Spark would read {seen} of {len(adds)} added files")
    selected: Any = frame.select(*(quote(name) for name in schema.names))  # Spark puts those of partitions last
    return cast("DataFrame", selected)


def _counted(head: Head, add: Mapping[str, Any]) -> None:
    found, stated = pq.read_metadata(log.absolute(head.folder, add["path"])).num_rows, rows_of(add)
    if found != stated:
        raise _wrong(head, f"file {add['path']} has {found} rows, the log says {stated}")


def _wrong(head: Head, why: str) -> LakewardError:
    return LakewardError(
        f"The added rows of the Delta table in {head.folder} cannot be read",
        why=why,
        next="lakeward tables health",
        code="LW-5001",
    )
