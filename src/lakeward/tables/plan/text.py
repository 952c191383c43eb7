"""Numbers as people read them in a reason."""

from __future__ import annotations

from datetime import timedelta

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def span(length: timedelta | float) -> str:
    """`35 s`, `12 min`, `3 h`, `2 d`."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def size(count: float) -> str:
    """`812 B`, `3.2 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def many(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
