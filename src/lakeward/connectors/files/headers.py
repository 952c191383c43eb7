"""What a file of columns says of them, compared with the declared ones before anything of it is read.

Spark makes nulls of a column that a Parquet or Avro file lacks, and dies inside a task, after minutes, at a type it
cannot convert or a header that does not fit.
"""

from __future__ import annotations

import csv
import gzip
import io
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import avro
from lakeward.spec.model.sources import TYPED, FilesSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WIDER = {
    "smallint": {"tinyint"},
    "int": {"tinyint", "smallint"},
    "bigint": {"tinyint", "smallint", "int"},
    "double": {"float"},
    "timestamp": {"timestamp_ntz"},  # a time without a zone is one of UTC, as everywhere here
}
"""Declared type -> types of a file whose every value it holds."""
_AVRO_WIDER = {key: _WIDER[key] for key in ("bigint", "double")}
"""Spark does not read a time without a zone of an Avro file as a TIMESTAMP."""
_NAMES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}
_PACKED = (".bz2", ".zst", ".snappy", ".lz4", ".deflate")
"""Of a CSV packed so, Spark's own comparison of the header is left."""


def differences(files: FileAccess, url: str, source: FilesSource, declared: StructType) -> list[str]:
    """What of the declared columns the file does not have so, in words; a file that is gone says nothing."""
    name = unquote(url)
    if source.format == "csv" and (not source.header or name.endswith(_PACKED)):
        return []
    try:
        with files.open(name) as file:
            if source.format in TYPED:
                return _typed(file, source.format, declared)
            return _csv(file, declared, packed=name.endswith(".gz"))
    except FileNotFoundError:
        return []


def _csv(file: IO[bytes], declared: StructType, *, packed: bool) -> list[str]:
    try:
        # Whatever is wrong in a row further on is that row's, so what is not UTF-8 is passed over here.
        with (
            gzip.open(file) if packed else file as plain,
            io.TextIOWrapper(cast(IO[bytes], plain), "utf-8-sig", "replace", newline="") as text,
        ):
            header = next(csv.reader(text), None)
    except (gzip.BadGzipFile, csv.Error) as error:
        return [f"its header cannot be read: {error}"]
    wanted = declared.fieldNames()
    if header is None or [name.lower() for name in header] == [name.lower() for name in wanted]:
        return []
    return [f"it begins with {', '.join(header)}; declared are {', '.join(wanted)}"]


def _typed(file: Any, kind: str, declared: StructType) -> list[str]:
    """Of a file that knows its columns and their types."""
    wider = _AVRO_WIDER if kind == "avro" else _WIDER
    try:
        typed = columns_of(file, kind)
    except FileNotFoundError:
        raise
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        return [f"it is no {_NAMES[kind]} file: {str(error).splitlines()[0]}"]
    has = {name.lower(): spark for name, spark in typed.items()}
    found = []
    for field in declared.fields:
        wanted, there = field.dataType.simpleString(), has.get(field.name.lower())
        if there is None:
            found.append(f"it has no column {field.name}")
        elif there != wanted and there not in wider.get(wanted, set()):
            found.append(f"{field.name} is {there.upper()}, declared is {wanted.upper()}")
    return found


def columns_of(file: Any, kind: str) -> dict[str, str]:
    """The columns of a Parquet, ORC or Avro file -> their types as Spark calls them.

    Raises:
        ValueError, OSError: it is none.
    """
    if kind == "avro":
        return avro.columns_of(file)
    return {field.name: _spark_type(field.type) for field in _schema_of(file, kind)}


def _schema_of(file: Any, kind: str) -> Any:
    if kind == "parquet":
        import pyarrow.parquet as pq

        return pq.read_schema(file)
    from pyarrow import orc

    return orc.ORCFile(file).schema


def _spark_type(kind: Any) -> str:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return from_arrow_type(plain, prefer_timestamp_ntz=True).simpleString()
    except PySparkException:
        return str(plain)
