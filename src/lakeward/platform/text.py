"""Formatting of sizes, durations, counts and times, each in one form: `6 min`, `1,234 records`, `3.2 MB`."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_./@:,+=%-]+")
_EXPANDED: Final = re.compile(r'["$`\\!\n]')
"""What a shell reads inside double quotes."""
_LIKE_AN_OPTION: Final = re.compile(r"(-[^.`]*)(\..+)", re.DOTALL)
"""A table whose namespace begins with a hyphen."""


def span(length: timedelta | float | None) -> str:
    """A duration (a number is in seconds), in one or two units: `4 s`, `6 min`, `2 h 5 min`, `3 days`."""
    if length is None:
        return "an unknown time"
    whole = max(0, round(length.total_seconds() if isinstance(length, timedelta) else length))
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{round(hours / 24)} days"


def count(number: int | None, noun: str) -> str:
    """A count with its noun: `1 record`, `1,234 records`, `an unknown number of records`."""
    if number is None:
        return f"an unknown number of {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def whole_number(text: str | None) -> int | None:
    """The number that a text written by another program is; None if it is none."""
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def word(text: str) -> str:
    """One word of a command line, quoted where a shell would read it otherwise: `nyc.flights`, `"nyc.my table"`.

    A table's name that a command would take for an option begins with a backtick instead: ``'`-eu`.orders'``.
    """
    if option := _LIKE_AN_OPTION.fullmatch(text):
        text = f"`{option[1]}`{option[2]}"
    if _PLAIN_WORD.fullmatch(text):
        return text
    return shlex.quote(text) if _EXPANDED.search(text) else f'"{text}"'


def listed(names: list[str], most: int = 5) -> str:
    """Names in a sentence, the rest counted: `a, b and 3 more`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def size(number: float | None) -> str:
    """A number of bytes in the units of specs, where 1 MB is 1024 KB: `812 B`, `3.2 MB`, `128 MB`."""
    value = float(number or 0)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TB"


def moment(at: datetime) -> str:
    """A time in a sentence, to the second: `2026-03-01 12:00:00 UTC`."""
    return f"{_utc(at):%Y-%m-%d %H:%M:%S} UTC"


def minute(at: datetime) -> str:
    """A time in a sentence, to the minute: `2026-03-01 12:00 UTC`."""
    return f"{_utc(at):%Y-%m-%d %H:%M} UTC"


def rfc3339(at: datetime, timespec: Literal["seconds", "milliseconds"] = "milliseconds") -> str:
    """A time as data: RFC 3339 in UTC, e.g. `2026-11-21T03:10:00.000Z`."""
    return _utc(at).isoformat(timespec=timespec).replace("+00:00", "Z")


EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Moments from metadata are kept between these: ages and durations can still be added to them."""


def instant(milliseconds: float) -> datetime:
    """Milliseconds since 1970 as a time in UTC; one outside `EARLIEST` and `LATEST` as the nearer of them.

    A writer with a wrong clock, or with another unit, must not make a table unreadable.
    """
    low, high = EARLIEST.timestamp() * 1000, LATEST.timestamp() * 1000
    return datetime.fromtimestamp(min(max(milliseconds, low), high) / 1000, UTC)


def now() -> str:
    """The present time as data, by the clock of this machine."""
    return rfc3339(datetime.now(UTC))


def _utc(at: datetime) -> datetime:
    """The time in UTC; a time without a zone is UTC already, as in Iceberg and Spark."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
