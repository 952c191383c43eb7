"""A literal of a suite as a value of its column's type. Pure.

Spark would cast it while it plans or runs: an error in the middle of a job, values that compare as rounded doubles, or,
for a text among numbers in an `IN`, a planner that does not end.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

Converter = Callable[[Any, str, bool], Any]
"""(value, the column's type, whether it is a bound) -> the value to compare with."""

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_MOST_DIGITS = 38
_EXACT = 2**53
"""From here on a double cannot hold every whole number."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_INFINITE = re.compile(r"([+-]?)\.?inf(?:inity)?", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9:]{2,6})?"
)
_QUOTES = "write it in quotes"


class Unfit(ValueError):
    """Raised when a literal is no value of the column's type; the message is a clause with the valid form."""


def literal(value: Any, kind: str, *, bound: bool = False) -> Any:
    """The value to compare a column with.

    Args:
        value: as the suite has it; not null.
        kind: the column's type in Spark's words; an unknown one returns the value as it is.
        bound: whether values are compared by order, so that one the type cannot hold has a meaning.

    Raises:
        Unfit: it is no value of the type.
    """
    base = re.split(r"[(<]", kind.strip().upper(), maxsplit=1)[0]
    converter = _CONVERTERS.get(base)
    if converter is None:
        return value
    try:
        return converter(value, kind.strip().upper(), bound)
    except Unfit:
        raise
    except (ArithmeticError, ValueError) as error:  # beyond the years or the digits that Python has
        raise Unfit(f"{_shown(value)} is beyond what can be compared with {kind.strip().upper()} ({error})") from None


def _whole(value: Any, kind: str, bound: bool) -> Any:
    number = _number(value, f"{_shown(value)} is not a whole number (valid: 42)")
    if number != number.to_integral_value():
        if bound:
            return number
        raise Unfit(f"{_shown(value)} is not a whole number (valid: 42)")
    whole = int(number)
    bits = _BITS[kind]
    if not bound and not -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1):
        raise Unfit(f"{whole} is outside of {kind} ({-(2 ** (bits - 1))} to {2 ** (bits - 1) - 1})")
    return whole if -(2**63) <= whole < 2**63 else Decimal(whole)


def _decimal(value: Any, kind: str, bound: bool) -> Any:
    number = _number(value, f"{_shown(value)} is not a number (valid: 12.50)")
    if isinstance(value, float) and abs(value) >= _EXACT:
        raise Unfit(f"{_shown(value)} was rounded when the file was read: {_QUOTES}, with all its digits")
    digits, scale = (int(each) for each in re.findall(r"[0-9]+", kind)) if "(" in kind else (10, 0)
    normal = number.normalize()
    if not bound and (-int(normal.as_tuple().exponent) > scale or normal.adjusted() >= digits - scale):
        raise Unfit(f"{format(number, 'f')} does not fit into {kind}: no value can equal it")
    return number


def _number(value: Any, message: str) -> Decimal:
    """The number that was written, without any detour through a double."""
    text = str(value).strip()
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal) or not _NUMBER.fullmatch(text):
        raise Unfit(message)
    try:
        found = Decimal(format(Decimal(text), "f"))
    except InvalidOperation:
        raise Unfit(message) from None
    if len(found.as_tuple().digits) > _MOST_DIGITS:
        raise Unfit(f"{_shown(value)} has more than {_MOST_DIGITS} digits, which no type of Spark holds")
    return found


def _floating(value: Any, kind: str, bound: bool) -> Any:
    text = str(value).strip()
    infinite = _INFINITE.fullmatch(text)
    if infinite:
        return -math.inf if infinite[1] == "-" else math.inf
    if text.lower().lstrip(".") == "nan":
        if bound:
            raise Unfit("NaN is no bound: Spark sorts it above every number")
        return math.nan
    if isinstance(value, bool) or (not isinstance(value, float | Decimal) and not _NUMBER.fullmatch(text)):
        raise Unfit(f"{_shown(value)} is not a number (valid: 1.5)")
    number = float(value) if isinstance(value, float) else float(text)
    if kind != "FLOAT":
        return number
    try:  # the nearest value that a FLOAT has: 0.1 as a double equals no FLOAT
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        if bound:
            return math.copysign(math.inf, number)
        raise Unfit(f"{_shown(value)} is more than a FLOAT holds") from None


def _text(value: Any, kind: str, bound: bool) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, date):
        return value.isoformat()
    what = "true or false" if isinstance(value, bool) else "a number"
    raise Unfit(f"{_shown(value)} without quotes is {what}, not text: {_QUOTES}, as it is in the data")


def _truth(value: Any, kind: str, bound: bool) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise Unfit(f"{_shown(value)} is not true or false (valid: true, false)")


def _day(value: Any, kind: str, bound: bool) -> Any:
    found = _moment(value, f"{_shown(value)} is not a day (valid: 2026-12-31)")
    if found.time() == time() and found.tzinfo is None:
        return found.date()
    if bound:
        return _utc(found)
    raise Unfit(f"{_shown(value)} has a time of day, and the column has days (valid: {found.date()})")


def _instant(value: Any, kind: str, bound: bool) -> Any:
    return _utc(_moment(value, f"{_shown(value)} is not a time (valid: 2026-12-31T23:59:59Z)"))


def _local(value: Any, kind: str, bound: bool) -> Any:
    found = _moment(value, f"{_shown(value)} is not a time (valid: 2026-12-31T23:59:59)")
    if found.tzinfo is not None:
        raise Unfit(f"{_shown(value)} has a time zone, and the column has none (valid: {found.replace(tzinfo=None)})")
    return found.isoformat()  # text: a datetime literal of Spark has a time zone


def _utc(found: datetime) -> datetime:
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _moment(value: Any, message: str) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    if not isinstance(value, str):
        raise Unfit(message)
    text = value.strip()
    try:
        if _DAY.fullmatch(text):
            return datetime.combine(date(*(int(each) for each in text.split("-"))), time())
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:  # a day or an hour that does not exist
        raise Unfit(message) from None
    raise Unfit(message)


def _bytes(value: Any, kind: str, bound: bool) -> Any:
    if isinstance(value, str | bytes):
        return value
    raise Unfit(f"{_shown(value)} without quotes is a number, not bytes: {_QUOTES}")


def _none(value: Any, kind: str, bound: bool) -> Any:
    raise Unfit(f"{_shown(value)} is one value, and the column is {kind}: name a field of it, or use a query")


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


_CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(_BITS, _whole),
    "DECIMAL": _decimal,
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating),
    **dict.fromkeys(("STRING", "VARCHAR", "CHAR"), _text),
    "BOOLEAN": _truth,
    "DATE": _day,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), _instant),
    "TIMESTAMP_NTZ": _local,
    "BINARY": _bytes,
    **dict.fromkeys(("ARRAY", "MAP", "STRUCT", "VARIANT"), _none),
}
