"""Numbers as people say them: `6 min`, `1,234 records`."""

from __future__ import annotations


def span(seconds: float | None) -> str:
    """A span of time in one unit, or two where it matters: `4 s`, `6 min`, `2 h 5 min`, `3 days`."""
    if seconds is None:
        return "an unknown time"
    whole = max(0, round(seconds))
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


def listed(names: list[str], most: int = 5) -> str:
    """Names in a sentence, the long tail counted: `a, b and 3 more`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
