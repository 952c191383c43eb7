"""What a decoder must make of one value: written from the contract (docs/reference/decode.md), without Spark."""

from __future__ import annotations

import base64
import binascii
import json
import random
import re
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

REFUSED = "refused"
MAY = "may be refused"
"""A shortest spelling of a huge DOUBLE: Java 17 does not know each of them."""

TYPES = {
    "SMALLINT": 16, "INT": 32, "BIGINT": 64, "DOUBLE": 53, "FLOAT": 24, "BOOLEAN": 0, "STRING": 0, "BINARY": 0,
    "DATE": 0, "TIMESTAMP": 0, "TIMESTAMP_NTZ": 0, "DECIMAL(6,2)": 6, "DECIMAL(18,6)": 18, "DECIMAL(38,10)": 38,
}  # fmt: skip
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ANY_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})0*)?)?"
    r"(Z| ?UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1)


def expected(kind: str, token: str) -> Any:
    """The value of a JSON token in a column of a type: as `rendered` shows it, REFUSED, or (MAY, value).

    Args:
        kind: one of TYPES.
        token: JSON text that is no object or array.
    """
    if token == "null":
        return None
    text = json.loads(token) if token.startswith('"') else token
    if re.search("[\ud800-\udfff]", text):
        return REFUSED
    return value_of(kind, text, string=token.startswith('"'), literal=not token.startswith('"'))


def value_of(kind: str, text: str, *, string: bool, literal: bool) -> Any:
    """The value of a text; in CSV it may be both a string and a literal."""
    if kind == "STRING":
        return text
    if kind.startswith("DECIMAL"):
        return _decimal(kind, text)
    if kind == "DATE":
        return _day(text)
    if kind.startswith("TIMESTAMP"):
        return _instant(text, local=kind.endswith("NTZ"))
    if kind == "BINARY":
        return _bytes(text) if string else REFUSED
    if not literal:
        return REFUSED
    if kind == "BOOLEAN":
        return {"true": True, "false": False}.get(text.lower(), REFUSED)
    if string and kind in ("DOUBLE", "FLOAT") and re.fullmatch("NaN|[+-]?[iI]nf(inity)?", text):
        return float(text)
    if not (_ANY_NUMBER if string else _NUMBER).fullmatch(text):
        return REFUSED
    if kind in ("DOUBLE", "FLOAT"):
        return _floating(kind, text)
    whole = re.fullmatch("[+-]?[0-9]+", text)
    bound = 1 << (TYPES[kind] - 1)
    return int(text) if whole and len(text) < 25 and -bound <= int(text) < bound else REFUSED


def _floating(kind: str, text: str) -> Any:
    read = float(text)
    if kind == "FLOAT":
        try:
            read = struct.unpack("f", struct.pack("f", read))[0]
        except OverflowError:
            return REFUSED
    sent = Fraction(text)
    if abs(read) == float("inf") or (read == 0 and sent != 0):
        return REFUSED
    if abs(read) < 2.0 ** TYPES[kind] or (Fraction(read) == sent and abs(read) < 2.0**95):
        return read
    digits = len(re.sub(r"[-+.]|[eE].*", "", text).strip("0"))
    shortest = next(n for n in range(1, 18) if _same(kind, f"{read:.{n}g}", read))
    if abs(read) >= 2.0**95:
        return read if digits <= (17 if kind == "DOUBLE" else 9) else REFUSED
    return (MAY, read) if Fraction(f"{read:.{shortest}g}") == sent else REFUSED


def _same(kind: str, text: str, read: float) -> bool:
    found = float(text)
    if kind == "FLOAT":
        try:
            found = struct.unpack("f", struct.pack("f", found))[0]
        except OverflowError:
            return False
    return found == read


def _decimal(kind: str, text: str) -> Any:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", text):
        return REFUSED
    precision, scale = map(int, re.findall("[0-9]+", kind))
    scaled = Fraction(Decimal(text)) * 10**scale
    if scaled.denominator != 1 or abs(scaled) >= 10**precision:
        return REFUSED
    return Decimal(f"{int(scaled)}e-{scale}") if scaled else Decimal(0)


def _day(text: str) -> Any:
    try:
        return date.fromisoformat(text).isoformat() if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else REFUSED
    except ValueError:
        return REFUSED


def _instant(text: str, *, local: bool) -> Any:
    found = _TIME.fullmatch(text)
    if not found or (local and found[6]):
        return REFUSED
    day, hour, minute, second, fraction, zone = found.groups()
    try:
        clock = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second or '00'}.{(fraction or '0').ljust(6, '0')}")
    except ValueError:
        return REFUSED
    shift = re.fullmatch("([+-])([0-9]{2}):?([0-9]{2})?", zone or "")
    if shift:
        minutes = int(shift[2]) * 60 + int(shift[3] or 0)
        if minutes > 18 * 60 or int(shift[3] or 0) > 59:
            return REFUSED
        return (clock - _EPOCH - timedelta(minutes=minutes if shift[1] == "+" else -minutes)) // timedelta(
            microseconds=1
        )
    return (clock - _EPOCH) // timedelta(microseconds=1)


def _bytes(text: str) -> Any:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return REFUSED
    return found if base64.b64encode(found).decode() == text else REFUSED


SPELLINGS = [
    # whole numbers
    "0", "-0", "1", "-1", "127", "128", "32767", "32768", "-32769", "2147483647", "2147483648", "16777216", "16777217",
    "9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808",
    "9223372036854776000", "18446744073709551616", "99999999999999999999999999999999999999", "1" + "0" * 40,
    # fractions and exponents
    "1.0", "1.5", "-0.0", "0.1", "12.50", "12.345", "12.340", "1234.56", "9999.995", "12345678.9", "1e2", "1E2",
    "1.25e1", "120e-1", "1e-1", "1e400", "-1e400", "1e39", "1e300", "3.4028235e38", "1e-40", "1e-400", "5e-324",
    "0e-5", "1.7976931348623157e308", "9007199254740993.0", "9.007199254740993e15", "0.30000000000000004",
    "12.50000000000000000000000000000000000001", "12.49999999999999999999999999999999999999", "0." + "0" * 45 + "1",
    "1267650600228229401496703205376", "1180591620717411303424", "123456789012345678901234567890.123456789",
    # literals and texts of other types
    "true", "false", "null", '"true"', '"True"', '"false"', '""', '" "', '"null"', '"x"', '"12"', '" 12"', '"12 "',
    '"+5"', '"-5"', '"12.50"', '"12,50"', '"1,250.00"', '"1\u2019250"', '".5"', '"5."', '"1e2"', '"0x1F"', '"1_000"',
    '"NaN"', '"Infinity"', '"-Infinity"', '"1d"', '"12.5f"', '"-"', '"."', '"1e-40"',
    '"1234567890123456789012345678.5"',
    # days and times
    '"2026-03-01"', '"2026-02-30"', '"2024-02-29"', '"20260301"', "20260301", '"2026-3-1"', '"2026-03"', '"2026"',
    "2026",
    '"01.03.2026"', '"+12026-03-01"', '"-0001-01-01"', '"0000-01-01"', '"0001-01-01"', '"9999-12-31"', '"2026-03-01T"',
    '"2026-03-01 "', '"2026-03-01Z"', '"2026-03-01T22:00:00-05:00"', '"2026-03-01T05:00:00Z"', '"2026-03-01T05:00Z"',
    '"2026-03-01T05Z"', '"2026-03-01 05:00:00"', '"2026-03-01T05:00:00"', '"2026-03-29T02:30:00"',
    '"2026-03-08 02:30:00"',
    '"2026-03-01T05:00:00.1Z"', '"2026-03-01T05:00:00.123456Z"', '"2026-03-01T05:00:00.1234567Z"',
    '"2026-03-01T05:00:00.123456000Z"', '"2026-03-01T05:00:00.123456789Z"', '"2026-03-01T05:00:00+0100"',
    '"2026-03-01T05:00:00+01"', '"2026-03-01T05:00:00+05:45"', '"2026-03-01T05:00:00+19:00"', '"2026-03-01T24:00:00Z"',
    '"2026-03-01T05:60:00Z"', '"2026-03-01T05:00:60Z"', '"2026-03-01 05:00:00 UTC"', '"2026-03-01T05:00:00UTC"',
    '"2026-03-01T05:00:00 Europe/Berlin"', '"2026-03-01T05:00:00[UTC]"', '"2026-03-01T5:00:00Z"', '"12:30"', '"T12:30"',
    '"12:30:00Z"', '"2026-03-01 05:00:00 PM"', '"1969-12-31T23:59:59.999999Z"', '"1582-10-10T00:00:00Z"',
    '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '"now"', '"today"', '"epoch"', "1357034400",
    "1357034400000", "9223372036854775807", "1357034400.5", '"1357034400"',
    # bytes and odd texts
    '"YWJj"', '"YWI="', '"YWI"', '"YWJ="', '"YW Jj"', '"YW\\nJj"', '"YW-_"', '"===="', '"\\u00e4"', '"\\ud83d\\ude00"',
    '"\\ud83d"', '"\\ude00x"', '"\\\\ud83d"', '"what?"', '"{\\"a\\":1.50}"', '"[1.50]"', '"\\u0661"', '"\uff11"',
]  # fmt: skip
"""JSON tokens, each of which is tried in a column of each type."""


def drawn(rng: random.Random, number: int) -> list[str]:
    """Random tokens of all kinds, most of them near a limit of some type."""
    return [rng.choice(_DRAWS)(rng) for _ in range(number)]


def _double(rng: random.Random) -> str:
    value: float = struct.unpack("d", rng.randbytes(8))[0]
    return repr(value) if value == value and abs(value) != float("inf") else "0.5"


def _float(rng: random.Random) -> str:
    value: float = struct.unpack("f", rng.randbytes(4))[0]
    return repr(value) if value == value and abs(value) != float("inf") else "0.5"


def _time(rng: random.Random) -> str:
    clock = datetime(1, 1, 1) + timedelta(seconds=rng.randrange(315537897599), microseconds=rng.randrange(10**6))
    zone = rng.choice(["", "Z", "+02:00", "-0930", "+14", " UTC"])
    return f'"{clock.isoformat(rng.choice(["T", " "]))}{zone}"'


def _digits(rng: random.Random) -> str:
    whole = str(rng.randrange(10 ** rng.randrange(1, 25)))
    token = f"{whole}.{rng.randrange(10**9):09}"[: rng.randrange(2, 34)].rstrip(".")
    return rng.choice(["{}", '"{}"', "-{}", '"-{}"']).format(token)


_DRAWS = [
    _double,
    _float,
    _time,
    _digits,
    lambda rng: f"{rng.choice([-1, 1]) * (2 ** rng.randrange(70) + rng.randrange(-1, 2))}",
    lambda rng: f'"{date.fromordinal(rng.randrange(1, 3652059)).isoformat()}"',
    lambda rng: f'"{base64.b64encode(rng.randbytes(rng.randrange(6))).decode()}"',
    lambda rng: json.dumps("".join(chr(rng.choice([34, 92, 63, 48, 46, 123, 228, 8364, 128512])) for _ in range(4))),
    lambda rng: f"{rng.randrange(1000)}e{rng.randrange(-330, 330)}",
    lambda rng: f"{rng.randrange(10**17)}e{rng.randrange(-20, 20)}",
]
