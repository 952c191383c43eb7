"""What an Avro file says of itself: its columns as Spark reads them, and whether it is there to its end.

Types are those of `org.apache.spark.sql.avro.SchemaConverters` in Spark 4.1. A file is a header (magic, schema, a
random mark) and blocks that end with that mark: one that ends otherwise was cut off, and Spark would find that in a
task.
"""

from __future__ import annotations

import json
import os
from typing import Any, cast

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
"""Avro's type and logical type -> Spark's; any other logical type but decimal is passed over, as Spark does."""


def columns_of(file: Any) -> dict[str, str]:
    """The fields of an Avro file's records -> their types as Spark calls them.

    Args:
        file: open for reading bytes, at its beginning; seekable.

    Raises:
        ValueError: it is no Avro file of records, or not all of it is there.
    """
    import fastavro

    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError(f"it does not begin with {_MAGIC!r}")
    file.seek(0)
    try:
        header = cast(dict[str, Any], fastavro.schemaless_reader(file, _HEADER, None))
        schema: Any = fastavro.schema.expand_schema(json.loads(header["meta"]["avro.schema"]))
    # A broken header breaks the parser of it in every way there is; a store that is away is none of them.
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
        raise ValueError("it ends in the middle of a block: was it moved in whole?")
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise ValueError(f"its records are {type_of(schema).upper()}, not records with fields")
    return {field["name"]: type_of(field["type"]) for field in schema["fields"]}


def type_of(schema: Any) -> str:
    """Spark's name of an expanded Avro schema, e.g. `struct<n:int>`; of a record inside itself its own name."""
    if isinstance(schema, str):
        return _PLAIN.get(schema, schema)
    if isinstance(schema, list):
        return _union([each for each in schema if each != "null"])
    kind, logical = schema["type"], schema.get("logicalType")
    if not isinstance(kind, str):
        return type_of(kind)
    if kind == "record":
        return "struct<" + ",".join(f"{each['name']}:{type_of(each['type'])}" for each in schema["fields"]) + ">"
    if kind == "array":
        return f"array<{type_of(schema['items'])}>"
    if kind == "map":
        return f"map<string,{type_of(schema['values'])}>"
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    # Spark writes its intervals as numbers and says so beside them.
    return _LOGICAL.get((kind, logical)) or schema.get("spark.sql.catalyst.type") or _PLAIN.get(kind, kind)


def _union(kinds: list[Any]) -> str:
    """A union without its null: one type, the wider of two numbers, else a struct with a member for each."""
    names = [type_of(each) for each in kinds]
    if len(names) == 1:
        return names[0]
    if sorted(names) == ["bigint", "int"]:
        return "bigint"
    if sorted(names) == ["double", "float"]:
        return "double"
    return (
        "struct<" + ",".join(f"member{number}:{name}" for number, name in enumerate(names)) + ">" if names else "void"
    )
