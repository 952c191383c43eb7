"""File reader: reads files that arrive in a folder as a stream, and named files as a batch.

Spark options that skip files silently are fixed here and cannot be configured. By default Spark ignores files older
than the newest one by more than `maxFileAge` (7 days), subfolders, and, depending on the session, missing or corrupt
files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakeward.connectors.source import VALUE
from lakeward.spec.model.file_paths import hadoop
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.model.sources import TYPED, FilesSource
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT = "_lw_corrupt"
"""Column with the text of a CSV row that has a wrong number of values."""
_ALWAYS = {
    "recursiveFileLookup": "true",  # otherwise a subfolder is skipped, or becomes a column
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}


def record_column(source: str) -> str:
    """The struct column of a typed record (CSV, Parquet, Avro) until it is decoded."""
    return f"_lw_record_{source}"


def stream_options(source: FilesSource) -> dict[str, str]:
    """Options of Spark's file source."""
    return {
        **_ALWAYS,
        **_format_options(source),
        "maxFilesPerTrigger": str(source.max_files_per_trigger),
        "maxFileAge": "36500d",
        "latestFirst": "false",
        "fileNameOnly": "false",
        "cleanSource": "off",  # Spark asks no table: `cleaning`
    }


def read(session: SparkSession, name: str, source: FilesSource, schema: StructType | None) -> DataFrame:
    """The files as a stream of raw records with their position columns."""
    reader = session.readStream.format(_format(source)).options(**stream_options(source))
    return _shape(_with_schema(reader, source, schema).load(hadoop(source.path)), name, source, schema)


def read_files(
    session: SparkSession, name: str, source: FilesSource, schema: StructType | None, paths: Sequence[str]
) -> DataFrame:
    """The records of named files, as a batch. Fails if one is missing."""
    options = {**_ALWAYS, **_format_options(source), "__globPaths__": "false"}  # a name may contain a `*`
    reader = _with_schema(session.read.format(_format(source)).options(**options), source, schema)
    return _shape(reader.load([unquote(path) for path in paths]), name, source, schema)


def _format(source: FilesSource) -> str:
    return "text" if source.format == "json" else source.format


def _format_options(source: FilesSource) -> Mapping[str, str]:
    if source.format != "csv":
        return {}
    return {
        "header": "true" if source.header else "false",
        "enforceSchema": "false",  # a header with other columns is refused, not read by position
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        "columnPruning": "false",  # all columns are read, so that invalid ones are detected
        "multiLine": "true",
        "quote": '"',
        "escape": '"',
        "encoding": "UTF-8",
        **({"nullValue": source.nulls} if source.nulls is not None else {}),
    }


def _with_schema(reader: Any, source: FilesSource, schema: StructType | None) -> Any:
    if schema is None:
        return reader.schema("value STRING")  # otherwise an empty folder, e.g. on S3, has no columns
    if source.format in TYPED:
        return reader.schema(schema)
    from pyspark.sql.types import StringType, StructField, StructType

    texts = [StructField(field.name, StringType()) for field in schema.fields]
    return reader.schema(StructType([*texts, StructField(CORRUPT, StringType())]))


def _shape(raw: DataFrame, name: str, source: FilesSource, schema: StructType | None) -> DataFrame:
    from pyspark.sql import functions as F

    where = [
        # `file:/in/a` here and `file:///in/a` in the source log are one file: the form of the log is used.
        F.regexp_replace(F.col("_metadata.file_path"), "^file:/(?!/)", "file:///").alias("_file_path"),
        F.col("_metadata.file_modification_time").alias("_file_modified"),
        # In a streaming plan this is the timestamp of the batch: equal in every task, and in a replay.
        F.current_timestamp().alias(INGESTED_AT),
    ]
    if schema is None:
        lines = raw.select(F.col("value").cast("binary").alias(VALUE), *where)
        # A blank line is not a JSON record; in a text file it is a line.
        return lines if source.format == "text" else lines.where(F.trim(F.col(VALUE).cast("string")) != "")
    extra = [CORRUPT] if source.format == "csv" else []
    fields = F.struct(*(F.col(quote(field)) for field in [*schema.fieldNames(), *extra]))
    return raw.select(fields.alias(record_column(name)), *where)
