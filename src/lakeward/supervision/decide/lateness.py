"""Lateness: when a stream drops so much as late that a person has to know, and when that is over. Pure.

Two causes: its watermark is ahead of the clock (one record from the future moved it there), or most of its recent input
is late.
"""

from __future__ import annotations

from datetime import datetime

from lakeward.platform.text import moment, span
from lakeward.registry.observations import Observation

OPEN_SHARE, CLOSE_SHARE = 0.5, 0.1
"""It opens above the first share of late rows in the last batches, and closes below the second."""
LEAST_BATCHES = 3
"""With fewer batches a share says nothing."""


def judge(
    seen: Observation | None, now: datetime, *, ahead_s: float | None, reported: bool, kept_in: str | None = None
) -> str | None:
    """What is wrong with the event times of a stream, as a sentence; None if nothing is.

    Args:
        seen: what its driver last reported.
        ahead_s: how far its watermark may be ahead of the clock; None: it is not compared with the clock.
        reported: whether it was wrong before; then it is over only when it is well below the bound.
        kept_in: the table of its late records; None: they are dropped.
    """
    late = seen.late if seen is not None else None
    if late is None:
        return None
    mark = _moment(late.get("watermark"))
    ahead = (mark - now).total_seconds() if mark is not None else 0.0
    if mark is not None and ahead_s is not None and ahead > (0.0 if reported else ahead_s):
        return (
            f"its watermark is {moment(mark)}, {span(ahead)} ahead of the clock: "
            f"every record that is earlier {f'is late, and kept in {kept_in}' if kept_in else 'is dropped as late'}"
        )
    dropped, kept, batches = late.get("dropped") or 0, late.get("kept") or 0, late.get("batches") or 0
    share = dropped / (dropped + kept) if dropped + kept else 0.0
    if batches >= LEAST_BATCHES and share > (CLOSE_SHARE if reported else OPEN_SHARE):
        done = f"late, and are kept in {kept_in}" if kept_in else "dropped as late"
        return f"{share:.0%} of the rows of its last {batches} batches were {done}"
    return None


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # a watermark after the year 9999 has no other form here: it is ahead of every clock
        return None
