"""First bytes that say that a record is not plain UTF-8 JSON: byte order marks, Confluent's framing, compression."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_KNOWN = {
    "EFBBBF": "a byte order mark of UTF-8; the producer must write UTF-8 without one",
    "FFFE": "a byte order mark of UTF-16; the producer must write UTF-8",
    "FEFF": "a byte order mark of UTF-16; the producer must write UTF-8",
    "1F8B": "gzip; the producer must not compress the value itself (Kafka's compression.type is transparent)",
    "28B52FFD": "zstd; the producer must not compress the value itself (Kafka's compression.type is transparent)",
}


def misread(value: Column) -> list[tuple[Column, Column]]:
    """When a binary value begins with known bytes, and what they mean."""
    from pyspark.sql import functions as F

    first = F.hex(F.substring(value, 1, 5))
    found = [
        (first.startswith(start), F.lit(f"begins with {_spaced(start)}: {meaning}"))
        for start, meaning in _KNOWN.items()
    ]
    schema = F.conv(F.substring(first, 3, 8), 16, 10)
    framed = first.startswith("00") & (F.octet_length(value) > 5)
    words = F.concat(
        F.lit("begins with 00: the magic byte of Confluent's schema registry, with schema id "),
        schema,
        F.lit("; the producer must write plain JSON, without the registry's serializer"),
    )
    return [*found, (framed, words)]


def _spaced(digits: str) -> str:
    return " ".join(digits[at : at + 2] for at in range(0, len(digits), 2))
