"""Rows of a lake table as records of a source: nothing is decoded, and no row is rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.connectors.source import ERROR, RAW, REASON
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

IDENTITY = ("reason", "raw")
"""The columns of the quarantine table that identify a row without its own position: by content."""


def columns(schema: Any) -> list[Column]:
    """The columns of a schema, by name."""
    from pyspark.sql import functions as F

    return [F.col(quote(name)) for name in schema.fieldNames()]


def packed(rows: DataFrame, source: str) -> DataFrame:
    """Rows as raw records: one struct column, so that one plan can hold several sources, and the time of reading.

    A table that a stream landed has the column `_ingested_at` already. That value, the time when the record came into
    the lake, is preserved by `decoded`.
    """
    from pyspark.sql import functions as F

    record = F.struct(*columns(rows.schema)).alias(_record(source))
    return rows.select(record, F.current_timestamp().alias(INGESTED_AT))


def decoded(raw: DataFrame, source: str, schema: Any) -> DataFrame:
    """The inverse of `packed`: raw records with the columns of the table."""
    from pyspark.sql import functions as F

    names = schema.fieldNames()
    selected = [F.col(f"{quote(_record(source))}.{quote(name)}").alias(name) for name in names]
    if INGESTED_AT not in (name.lower() for name in names):
        selected.append(F.col(INGESTED_AT))
    no_error = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
    return raw.select(*selected, *no_error, F.lit(None).cast("binary").alias(RAW))


def write(session: SparkSession, file: str, text: str) -> None:
    """Write a file of a checkpoint, on any file system that Hadoop knows."""
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(file)
    out = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).create(path, True)
    try:
        out.write(bytearray(text.encode()))
    finally:
        out.close()


def _record(source: str) -> str:
    return f"_lw_record_{source}"
