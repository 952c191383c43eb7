"""What Spark's reader could not read: named with file, record and path, and told apart from a store that is away."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from lakeward.connectors.files.unread import avro_fault, file_of

READING = (
    "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
    "file:///in/a b%25.avro.  SQLSTATE: KD001\n"
)
SYNC = b"0123456789abcdef"


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def number(value: int) -> bytes:
    value, out = ((value << 1) ^ (value >> 63)) & ((1 << 64) - 1), b""
    while value & ~0x7F:
        out, value = out + bytes([(value & 0x7F) | 0x80]), value >> 7
    return out + bytes([value])


def avro(kind: Any, *records: bytes) -> bytes:
    """A file of records with a number `n` and a value `v`, whose bytes are as given."""
    fields = [{"name": "n", "type": "int"}, {"name": "v", "type": kind}]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [], sync_marker=SYNC)
    content = b"".join(number(at) + each for at, each in enumerate(records))
    return file.getvalue() + number(len(records)) + number(len(content)) + content + SYNC


MONEY = logical("bytes", "decimal", precision=4, scale=2)
ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"], "default": "A"}
INNER = {"type": "record", "name": "i", "fields": [{"name": "at", "type": logical("long", "timestamp-millis")}]}


@pytest.mark.parametrize(
    ("kind", "good", "odd", "words"),
    [
        (MONEY, number(2) + b"\x27\x0f", number(2) + b"\x27\x10", "v: 10000 has more digits than decimal(4,2)"),
        (MONEY, number(1) + b"\0", number(0), "v: a decimal without bytes"),
        (["null", MONEY], number(0), number(1) + number(2) + b"\x80\0", "v: -32768 has more digits than decimal(4,2)"),
        (INNER, number(-1), number(2**63 - 1), "v.at: 9223372036854775807 as timestamp-millis is beyond TIMESTAMP"),
        (
            {"type": "array", "items": INNER}, number(0), number(2) + number(1) + number(-(2**63)) + number(0),
            "v[1].at: -9223372036854775808 as timestamp-millis is beyond TIMESTAMP",
        ),
        (
            {"type": "map", "values": MONEY}, number(0),
            number(1) + number(1) + b"k" + number(3) + b"\x7f\0\0" + number(0), "v['k']: 8323072 has more digits",
        ),
        (ENUM, number(1), number(7), "it is not what the file's schema says"),
        ("string", number(1) + b"x", number(1 << 40), "it is not what the file's schema says"),
    ],
)  # fmt: skip
def test_the_first_value_of_an_avro_file_that_does_not_fit_is_named(
    kind: Any, good: bytes, odd: bytes, words: str
) -> None:
    assert avro_fault(io.BytesIO(avro(kind, good, good))) is None
    found = avro_fault(io.BytesIO(avro(kind, good, odd)))
    assert found is not None and found.startswith(f"record 2: {words}")


def test_the_file_and_the_innermost_error_are_found_in_a_chain_and_in_the_text_of_a_task() -> None:
    chain = f"{READING}java.lang.ArithmeticException: long overflow"
    assert file_of(chain) == ("file:///in/a b%25.avro", "ArithmeticException: long overflow")
    of_a_task = (
        f"py4j.protocol.Py4JJavaError: Job aborted due to stage failure: Lost task 0.0: {READING}"
        "\tat org.apache.spark.sql.X.y(X.scala:1)\n"
        "Caused by: org.apache.avro.AvroRuntimeException: Malformed data\n\tat a.b"
    )
    assert file_of(of_a_task) == ("file:///in/a b%25.avro", "AvroRuntimeException: Malformed data")
    assert file_of(f"{READING}java.io.EOFException: Unexpected end of ZLIB input stream") is not None


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: Input/output error",
        "java.net.SocketTimeoutException: Read timed out",
        "java.lang.OutOfMemoryError: Java heap space",
        "java.io.UncheckedIOException: away\njava.net.ConnectException: Connection refused",
    ],
)
def test_what_the_next_attempt_may_read_is_no_fault_of_the_file(cause: str) -> None:
    assert file_of(f"{READING}{cause}") is None
    assert file_of(cause) is None
