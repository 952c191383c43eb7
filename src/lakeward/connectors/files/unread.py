"""Why Spark failed to read a source file: which file, the reader's own words, and the first value of an Avro file that
does not fit its type.

A header says what the values of a file are; only reading them shows that one is not: more digits than its precision, a
time beyond TIMESTAMP, a symbol that an enum does not have, bytes that are damaged. Spark reports the file alone, with
the stack trace of its reader, and every repetition fails in the same way.
"""

from __future__ import annotations

import io
import re
from typing import Any, Final

_READING: Final = re.compile(r"\[FAILED_READ_FILE\.NO_HINT\] Encountered error while reading file (.+?)\.  SQLSTATE")
_THROWN: Final = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)+[\w$]+(?:Exception|Error))(?:: (.*))?$", re.MULTILINE)
_OF_THE_BYTES: Final = frozenset(
    {"java.io.EOFException", "java.util.zip.ZipException", "java.util.zip.DataFormatException"}
)
_SHOWN: Final = 200
_LARGEST_MS: Final = (2**63 - 1) // 1000
_MILLIS: Final = frozenset({"timestamp-millis", "local-timestamp-millis"})


def file_of(text: str) -> tuple[str, str] | None:
    """The file that a failure is about, and the innermost error of its reader; None if it is no fault of the file.

    An error of input or output is none: the store or the disk may answer the next time.

    Args:
        text: the errors from the outermost to the innermost, with their types, a line each.
    """
    found = _READING.search(text)
    thrown = _THROWN.findall(text)
    if found is None or not thrown:
        return None
    kind, words = thrown[-1]
    about_io = any(name.startswith("java.io.") or "IOException" in name or ".net." in name for name, _ in thrown)
    if kind.endswith("Error") or (about_io and kind not in _OF_THE_BYTES):
        return None
    return found[1], f"{kind.rpartition('.')[2]}{f': {words.strip()}' if words.strip() else ''}"[:_SHOWN]


def avro_fault(file: Any) -> str | None:
    """The first value of an Avro file that does not fit its type, with its record and path; None if none is found.

    Args:
        file: a seekable binary file at its beginning.
    """
    import fastavro

    number = 0
    try:
        blocks: Any = fastavro.block_reader(file)  # its types lack the bytes of a block
        for block in blocks:
            schema = fastavro.parse_schema(_plain(block.writer_schema), _force=True)
            for _ in range(block.num_records):
                number += 1
                record = fastavro.schemaless_reader(block.bytes_, schema, None)
                if wrong := _wrong(block.writer_schema, record, ""):
                    return f"record {number}: {wrong}"
    except (ValueError, LookupError, EOFError, OverflowError, MemoryError, TypeError, io.UnsupportedOperation) as error:
        return f"record {number}: it is not what the file's schema says ({type(error).__name__}: {error})"[:_SHOWN]
    return None


def _plain(schema: Any) -> Any:
    """A schema without its logical types: numbers and bytes as they are in the file."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    left = {name: value for name, value in schema.items() if name not in ("logicalType", "precision", "scale")}
    for name in ("items", "values"):
        if name in left:
            left[name] = _plain(left[name])
    if isinstance(left.get("type"), dict | list):
        left["type"] = _plain(left["type"])
    if "fields" in left:
        left["fields"] = [{**each, "type": _plain(each["type"])} for each in left["fields"]]
    return left


def _wrong(schema: Any, value: Any, path: str) -> str | None:
    """What is wrong with a value, or with one inside it."""
    if isinstance(schema, list):
        fits = [each for each in schema if each != "null"]
        return _wrong(fits[0], value, path) if len(fits) == 1 and value is not None else None
    if not isinstance(schema, dict):
        return None
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(kind, dict | list):
        return _wrong(kind, value, path)
    if kind == "record":
        names = {each["name"]: each["type"] for each in schema["fields"]}
        inside = (_wrong(of, value[name], f"{path}.{name}".lstrip(".")) for name, of in names.items())
        return next((found for found in inside if found), None)
    if kind == "array":
        return next((f for n, each in enumerate(value) if (f := _wrong(schema["items"], each, f"{path}[{n}]"))), None)
    if kind == "map":
        return next((f for k, each in value.items() if (f := _wrong(schema["values"], each, f"{path}[{k!r}]"))), None)
    if logical == "decimal" and isinstance(value, bytes):
        return _wrong_decimal(schema, value, path)
    if logical in _MILLIS and abs(value) > _LARGEST_MS:
        return f"{path}: {value} as {logical} is beyond TIMESTAMP"
    return None


def _wrong_decimal(schema: dict[str, Any], value: bytes, path: str) -> str | None:
    if not value:
        return f"{path}: a decimal without bytes"
    number, precision = int.from_bytes(value, "big", signed=True), int(schema["precision"])
    if abs(number) < 10**precision:
        return None
    shown = str(number) if len(value) <= 64 else f"a number of {len(value)} bytes"
    return f"{path}: {shown} has more digits than decimal({precision},{schema.get('scale', 0)})"
