"""Partition values as typed values, so that two spellings of one value are equal and two values never are.

Iceberg's manifests hold typed values; a Delta log holds texts, which each writer spells in its own way: delta-rs writes
`1965-03-01T23:30:00.000000Z`, older Spark and Trino `1965-03-01 23:30:00`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

EPOCH: Final = date(1970, 1, 1)
_START: Final = datetime(1970, 1, 1)
_NAN: Final = "NaN"
_MINUS_ZERO: Final = "-0.0"  # equal to zero for Python; for Iceberg and Delta a partition of its own
_INTEGERS: Final = ("byte", "short", "integer", "long")
_TIMES: Final = ("timestamp", "timestamp_ntz")
EMPTY: Final = ""
"""An empty string as a partition value. Delta's protocol reads it as NULL, delta-rs as an empty string."""


@dataclass(frozen=True)
class Partition:
    """A partition by its typed values.

    Attributes:
        values: one comparable value for each compared partition field; empty: no field is compared.
        name: for people; two partitions may have the same.
    """

    values: tuple[Hashable, ...] = ()
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.name


def comparable(value: Any) -> Hashable:
    """A value of an Iceberg manifest in a form that `==` compares by its type: dates as days, times as microseconds."""
    if isinstance(value, float):
        if value == 0 and math.copysign(1, value) < 0:
            return _MINUS_ZERO
        return _NAN if math.isnan(value) else value
    if isinstance(value, datetime):
        return _micros(value)
    if isinstance(value, date):
        return (value - EPOCH).days
    if isinstance(value, time):
        return _micros(datetime.combine(EPOCH, value))
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value if isinstance(value, Hashable) else repr(value)


def from_delta(kind: str, text: str | None) -> Hashable:
    """The value that a Delta log writes as `text`; a text that is no value of the type stays a text.

    Args:
        kind: the type of the column in Delta's schema, e.g. `timestamp` or `decimal(10,2)`.
        text: as in `partitionValues`. A time without a zone is in UTC, as everywhere in Lakeward.
    """
    if text is None or (not text and kind != "string"):
        return None
    if kind in ("string", "binary"):
        return text
    with suppress(ValueError, InvalidOperation, OverflowError):
        return _parsed(kind, text.strip())
    return ("text", text)


def shown(kind: str, text: str | None) -> str:
    """A value of a Delta log for people; the same for every spelling of one value."""
    value = from_delta(kind, text)
    if value is None or text is None:
        return "null"
    if kind == "string":
        return "'null'" if text == "null" else text
    if kind == "date" and isinstance(value, int):
        return (EPOCH + timedelta(days=value)).isoformat()
    if kind in _TIMES and isinstance(value, int):
        moment = (_START + timedelta(microseconds=value)).isoformat(sep=" ")
        return moment.rstrip("0") if "." in moment else moment
    if kind.startswith("decimal") and isinstance(value, Decimal):
        return f"{value:f}" if "," not in kind else f"{value:.{int(kind.rstrip(')').rpartition(',')[2])}f}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else text


def _parsed(kind: str, text: str) -> Hashable:
    if kind in _INTEGERS:
        return int(text)
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), ("text", text))
    if kind == "date":
        return (datetime.fromisoformat(text).date() - EPOCH).days
    if kind in _TIMES:
        return _micros(datetime.fromisoformat(text))
    if kind.startswith("decimal"):
        number = Decimal(text)
        return number if number.is_finite() else ("text", text)
    if kind == "float":
        return comparable(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    if kind == "double":
        return comparable(float(text))
    return ("text", text)


def _micros(moment: datetime) -> int:
    local = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo is not None else moment
    return (local - _START) // timedelta(microseconds=1)
