"""Formats of decoded values: how times, days and decimals are written in records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

Decimals = Literal["text", "number"]
WithoutZone = Literal["utc", "refuse"]


_TIMES = {
    "a": (1,), **dict.fromkeys("dHhKkms", (1, 2)), "D": (1, 2, 3), **dict.fromkeys("GML", (1, 2, 3, 4)),
    **dict.fromkeys("XxZ", (1, 2, 3, 4, 5)), **dict.fromkeys("yS", (1, 2, 3, 4, 5, 6)), "V": (2,), "O": (1, 4),
}  # fmt: skip
"""Letter that Spark reads -> how often it may be repeated. Spark would refuse others at the first record."""
_YEAR, _MONTH, _DAY, _HOUR = "y", "ML", "d", "Hkh"


def letters(pattern: str) -> str:
    """The letters of a pattern of Spark outside of quotes."""
    return "".join(re.findall("[A-Za-z]", re.sub("'[^']*'", "", pattern)))


def _pattern(pattern: str, what: str, needed: dict[str, str]) -> str:
    plain = re.sub("'[^']*'", " ", pattern)
    if strange := sorted(set(plain) & set("#{}'")):
        raise ValueError(f"{pattern!r} is no pattern of Spark: {strange[0]} is not in quotes, or a quote does not end")
    if plain.count("[") != plain.count("]"):
        raise ValueError(f"{pattern!r} is no pattern of Spark: a bracket has no other one")
    used = letters(pattern)
    if "z" in used:
        raise ValueError(
            f"{pattern!r} reads names of zones (z), and a name such as IST or CST is that of several zones; "
            "write VV for UTC or Europe/Berlin, XXX for +01:00"
        )
    if unknown := sorted(set(used) - _TIMES.keys()):
        words = "is no pattern of Spark" if len(used) > 1 else "is not known"
        raise ValueError(f"{pattern!r} {words}: it has no letter {', '.join(unknown)}")
    for run in re.findall(r"([A-Za-z])(\1*)", plain):
        letter, times = run[0], 1 + len(run[1])
        if letter == "S" and times > max(_TIMES["S"]):
            raise ValueError(
                f"{pattern!r} reads {times} digits of a second, and a TIMESTAMP has 6: the rest would be cut off"
            )
        if times not in _TIMES[letter]:
            often = " or ".join(str(number) for number in _TIMES[letter])
            raise ValueError(f"{pattern!r} is no pattern of Spark: {letter} is there {times} times, not {often}")
    if "sS" in plain:
        raise ValueError(
            f"{pattern!r} never fits: Spark reads no digits of a second directly after others; write ss.SSS"
        )
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
