"""Reads rows of a Delta table over Spark Connect: the files that some versions added, or the whole table at a version.

Added files are read as Parquet, by their own paths. The cost depends on the new rows only, also after a compaction has
removed the files from the table. Before any check runs, the number of files and their row counts are compared with the
log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

from lakeward.connectors.delta import log
from lakeward.connectors.delta.folder import parquet
from lakeward.connectors.delta.log import Head
from lakeward.platform.errors import LakewardError
from lakeward.quality.delta.commits import rows_of
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

# Above this number of paths Spark lists them by a distributed job; on a local disk a loop is faster.
_THRESHOLD, _SERIAL = "spark.sql.sources.parallelPartitionDiscovery.threshold", "100000"

# Delta refuses time travel to a version older than the VACUUM retention (7 days by default), except to the newest.
_BY_AGE = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


def whole(session: SparkSession, head: Head, version: int) -> DataFrame:
    """The table at a version. Missing files are detected by opening them, not by the age of the version."""
    session.conf.set(_BY_AGE, "false")
    reader: Any = session.read  # Connect's stubs say classic frames come out
    found: DataFrame = reader.format("delta").option("versionAsOf", str(version)).load(str(head.folder))
    return found


def of_files(session: SparkSession, head: Head, adds: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The rows of added files, with the columns the table has now.

    Raises:
        LakewardError: a file's row count differs from the log, or Spark would not read every file.
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
    frame: DataFrame = reader.parquet(*(str(log.absolute(head.folder, add["path"])) for add in adds))
    if (seen := len(frame.inputFiles())) != len(adds):
        raise _wrong(head, f"Spark would read {seen} of {len(adds)} added files")
    selected: Any = frame.select(*(quote(name) for name in schema.names))  # Spark puts partition columns last
    return cast("DataFrame", selected)


def _counted(head: Head, add: Mapping[str, Any]) -> None:
    file = parquet(log.absolute(head.folder, add["path"]))
    found, stated = pq.read_metadata(file).num_rows, rows_of(add)
    if found != stated:
        raise _wrong(head, f"file {add['path']} has {found} rows, the log says {stated}")


def _wrong(head: Head, why: str) -> LakewardError:
    return LakewardError(
        f"Cannot read the added rows of the Delta table in {head.folder}",
        why=why,
        next="lakeward tables health",
        code="LW-5001",
    )
