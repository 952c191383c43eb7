"""Rows of a table of the lake as records of a source: nothing is decoded, none is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.connectors.source import ERROR, RAW, REASON
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

IDENTITY = ("reason", "raw")
"""The columns of the quarantine table that identify a row without a position of its own: its content."""


def columns(schema: Any) -> list[Column]:
    """The columns of a schema, by name."""
    from pyspark.sql import functions as F

    return [F.col(quote(name)) for name in schema.fieldNames()]


def packed(rows: DataFrame, source: str) -> DataFrame:
    """Rows as raw records: one column, so that those of several sources can stand in one plan; and when it was read.

    A table that was landed by a stream has `_ingested_at` already: the moment its record came into the lake, which is
    what stays.
    """
    from pyspark.sql import functions as F

    record = F.struct(*columns(rows.schema)).alias(_record(source))
    return rows.select(record, F.current_timestamp().alias(INGESTED_AT))


def decoded(raw: DataFrame, source: str, schema: Any) -> DataFrame:
    """Raw records of `packed` with their columns again."""
    from pyspark.sql import functions as F

    names = schema.fieldNames()
    found = [F.col(f"{quote(_record(source))}.{quote(name)}").alias(name) for name in names]
    if INGESTED_AT not in (name.lower() for name in names):
        found.append(F.col(INGESTED_AT))
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
    return raw.select(*found, *nothing, F.lit(None).cast("binary").alias(RAW))


def write(session: SparkSession, file: str, text: str) -> None:
    """Write a file of a checkpoint, wherever that stands."""
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(file)
    out = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).create(path, True)
    try:
        out.write(bytearray(text.encode()))
    finally:
        out.close()


def _record(source: str) -> str:
    return f"_lw_record_{source}"
