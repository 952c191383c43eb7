"""Check of a source file (Parquet, ORC, Avro, CSV) against the declared columns, before the file is read.

Spark reads a column that a Parquet or Avro file lacks as nulls. A type that it cannot convert, or a CSV header that
does not match, fails inside a task, minutes later.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import quotes, unpack
from lakeward.spec.model.sources import TYPED, FilesSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_WIDER = {
    "smallint": {"tinyint", "uint8"},
    "int": {"tinyint", "smallint", "uint16"},
    "bigint": {"tinyint", "smallint", "int", "uint8", "uint16", "uint32"},
    "decimal(20,0)": {"uint64"},
    "double": {"float"},
    "timestamp": {"timestamp_ntz"},  # a time without a zone is in UTC, as everywhere in Lakeward
}
"""Declared type -> narrower file types that it can hold without loss.

Of numbers without a sign (Parquet) only what both of Spark's readers read exactly: a narrower one wraps around.
"""
_AVRO_WIDER = {key: _WIDER[key] for key in ("bigint", "double")}
"""Spark cannot read a time without a zone of an Avro file as a TIMESTAMP."""
_NO_NANOSECONDS = "Spark reads no times in nanoseconds: write the file with microseconds"
_NAMES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""First bytes of a text in UTF-16, or in UTF-32: Spark would land it letter by letter, with NUL characters between."""


def differences(files: FileAccess, url: str, source: FilesSource, declared: StructType | None) -> list[str]:
    """How a file differs from what was declared, one clause each; empty for a missing file.

    Args:
        declared: the columns; None for a text, which has none.
    """
    name = unquote(url)
    try:
        if declared is not None and source.format in TYPED:
            with files.open(name) as file:
                return _typed(file, source.format, declared)
        if declared is None:
            return _encoding(files, name) if unpack.readable(name) else []
        if different := _encoding(files, name):
            return different
        return (_csv(files, name, declared) if source.header else []) or _quotes(files, name)
    except FileNotFoundError:
        return []
    except unpack.Unfit as error:
        return [str(error)]


def _encoding(files: FileAccess, name: str) -> list[str]:
    """Whether a file of texts is in an encoding that no line of it shows."""
    with files.open(name) as file:
        first = unpack.plain(file, name).read(2)
    return ["it begins with a byte order mark of UTF-16; files must be UTF-8"] if first in _WIDE_MARKS else []


def _quotes(files: FileAccess, name: str) -> list[str]:
    """The first place of a CSV file that Spark would read as other values than were written."""
    with files.open(name) as file:
        found = quotes.fault(unpack.plain(file, name))
    return [] if found is None else [found]


def _csv(files: FileAccess, name: str, declared: StructType) -> list[str]:
    try:
        # Errors of encoding in later rows concern those rows only, so they are replaced here.
        with (
            files.open(name) as file,
            io.TextIOWrapper(unpack.plain(file, name), "utf-8-sig", "replace", newline="") as text,
        ):
            header = next(csv.reader(text), None)
    except csv.Error as error:
        return [f"its header cannot be read: {error}"]
    names = declared.fieldNames()
    if header is None or [name.lower() for name in header] == [name.lower() for name in names]:
        return []
    return [f"its header is {', '.join(header)}; declared are {', '.join(names)}"]


def _typed(file: Any, kind: str, declared: StructType) -> list[str]:
    """The differences of a file that stores the types of its columns."""
    wider = _AVRO_WIDER if kind == "avro" else _WIDER
    try:
        typed = columns_of(file, kind)
    except FileNotFoundError:
        raise
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        return [f"it is not a valid {_NAMES[kind]} file: {str(error).splitlines()[0]}"]
    has = {name.lower(): spark for name, spark in typed.items()}
    different = []
    for field in declared.fields:
        expected, actual = field.dataType.simpleString(), has.get(field.name.lower())
        if actual is None:
            different.append(f"it has no column {field.name}")
        elif actual != expected and actual not in wider.get(expected, set()):
            more = f" ({_NO_NANOSECONDS})" if "[ns" in actual else ""
            different.append(f"{field.name} is {actual.upper()}, declared is {expected.upper()}{more}")
    return different


def columns_of(file: Any, kind: str) -> dict[str, str]:
    """Column -> Spark type, of a Parquet, ORC or Avro file.

    Raises:
        ValueError, OSError: it is not such a file.
    """
    if kind == "avro":
        return avro_columns_of(file)
    if kind == "parquet":
        import pyarrow.parquet as pq

        # Of the times in nanoseconds Spark reads those of 12 bytes, as it writes them too.
        schema = pq.ParquetFile(file, coerce_int96_timestamp_unit="us").schema_arrow
        return {each.name: str(each.type) if _nanoseconds(each.type) else _spark_type(each.type) for each in schema}
    from pyarrow import orc

    return {field.name: _spark_type(field.type) for field in orc.ORCFile(file).schema}


def _nanoseconds(kind: Any) -> bool:
    """Whether a type of Arrow is a time in nanoseconds, or has one inside."""
    import pyarrow as pa

    inside = (kind.field(at).type for at in range(kind.num_fields))
    return (pa.types.is_timestamp(kind) and kind.unit == "ns") or any(map(_nanoseconds, inside))


def _spark_type(kind: Any) -> str:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    if isinstance(kind, pa.JsonType):
        return "string"  # Spark reads the text as it is
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return from_arrow_type(plain, prefer_timestamp_ntz=True).simpleString()
    except PySparkException:
        return str(plain)


_MAGIC, _MARK = b"Obj\x01", 16
_HEADER = {
    "type": "record",
    "name": "org.apache.avro.file.Header",  # as Avro's specification has it
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _MARK}},
    ],
}
_PLAIN = {
    "null": "void", "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "string": "string", "bytes": "binary", "fixed": "binary", "enum": "string",
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
"""(Avro type, logical type) -> Spark type. Decimal is separate; Spark ignores all other logical types."""


def avro_columns_of(file: Any) -> dict[str, str]:
    """Field -> Spark type, of the records of an Avro file.

    Args:
        file: a seekable binary file at its beginning.

    Raises:
        ValueError: it is not an Avro file of records, or it is truncated.
    """
    import fastavro

    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError(f"it does not begin with {_MAGIC!r}")
    file.seek(0)
    try:
        header = cast(dict[str, Any], fastavro.schemaless_reader(file, _HEADER, None))
        schema: Any = fastavro.schema.expand_schema(json.loads(header["meta"]["avro.schema"]))
    # A broken header can raise any of these in the parser. An unreachable store raises other errors.
    except (
        ValueError,
        LookupError,
        EOFError,
        OverflowError,
        MemoryError,
        fastavro.schema.SchemaParseException,
    ) as error:
        raise ValueError(f"its header cannot be read: {type(error).__name__} {error}".rstrip()) from None
    file.seek(-_MARK, os.SEEK_END)
    if file.read(_MARK) != header["sync"]:
        raise ValueError("it is truncated: it ends in the middle of a block")
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise ValueError(f"its records are {type_of(schema).upper()}, not records with fields")
    return {field["name"]: type_of(field["type"]) for field in schema["fields"]}


def type_of(schema: Any) -> str:
    """The Spark type of an expanded Avro schema, e.g. `struct<n:int>`; a recursive record is shown by name."""
    if isinstance(schema, str):
        return _PLAIN.get(schema, schema)
    if isinstance(schema, list):
        return _union([branch for branch in schema if branch != "null"])
    kind, logical = schema["type"], schema.get("logicalType")
    if not isinstance(kind, str):
        return type_of(kind)
    if kind == "record":
        return "struct<" + ",".join(f"{field['name']}:{type_of(field['type'])}" for field in schema["fields"]) + ">"
    if kind == "array":
        return f"array<{type_of(schema['items'])}>"
    if kind == "map":
        return f"map<string,{type_of(schema['values'])}>"
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    # Spark writes intervals as numbers and records their Spark type as a property.
    return _LOGICAL.get((kind, logical)) or schema.get("spark.sql.catalyst.type") or _PLAIN.get(kind, kind)


def _union(kinds: list[Any]) -> str:
    """The Spark type of a union without null: one type, the wider of two numbers, else a struct of members."""
    names = [type_of(kind) for kind in kinds]
    if len(names) == 1:
        return names[0]
    if sorted(names) == ["bigint", "int"]:
        return "bigint"
    if sorted(names) == ["double", "float"]:
        return "double"
    return (
        "struct<" + ",".join(f"member{number}:{name}" for number, name in enumerate(names)) + ">" if names else "void"
    )
