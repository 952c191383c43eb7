"""Formats of decoded values: how times, days and decimals are written in records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

Decimals = Literal["text", "number"]
WithoutZone = Literal["utc", "refuse"]


_LETTERS = frozenset("GyuQqMLdDEeaHhKkmsSVzOXxZ")
_YEAR, _MONTH, _DAY, _HOUR = "yu", "ML", "d", "Hkh"


def letters(pattern: str) -> str:
    """The letters of a pattern of Spark outside of quotes."""
    return "".join(re.findall("[A-Za-z]", re.sub("'[^']*'", "", pattern)))


def _pattern(pattern: str, what: str, needed: dict[str, str]) -> str:
    used = letters(pattern)
    if unknown := sorted(set(used) - _LETTERS):
        words = "is no pattern of Spark" if len(used) > 1 else "is not known"
        raise ValueError(f"{pattern!r} {words}: it has no letter {', '.join(unknown)}")
    lacking = [name for name, choices in needed.items() if not any(letter in used for letter in choices)]
    if "D" in used:
        lacking = [name for name in lacking if name not in ("month", "day")]
    if lacking:
        raise ValueError(f"{pattern!r} reads no {' and no '.join(lacking)}, so it is not {what}")
    if "h" in used and "a" not in used:
        raise ValueError(f"{pattern!r} reads the hour of a half day (h) and not which half (a); write HH")
    return pattern


def _timestamps(given: str) -> str:
    if given in ("iso", "epoch_s", "epoch_ms"):
        return given
    return _pattern(given, "a TIMESTAMP", {"year": _YEAR, "month": _MONTH, "day": _DAY, "hour": _HOUR})


def _dates(given: str) -> str:
    return given if given == "iso" else _pattern(given, "a DATE", {"year": _YEAR, "month": _MONTH, "day": _DAY})


TimestampForm = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_timestamps)]
DateForm = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_dates)]


@dataclass(frozen=True)
class Formats:
    """The declared formats of one decoder; the defaults are strict.

    Attributes:
        timestamps: `iso`, `epoch_s`, `epoch_ms` or a pattern of Spark.
        dates: `iso` or a pattern.
        decimals: the only JSON token that a DECIMAL may be; None: either, as both are exact.
        without_zone: what an ISO time without a zone is.
        binary: how a BINARY is written: in CSV it is the bytes of its text.
    """

    timestamps: str = "iso"
    dates: str = "iso"
    decimals: Decimals | None = None
    without_zone: WithoutZone = "utc"
    binary: Literal["base64", "utf8"] = "base64"
