"""Audit tags: a tag on the snapshot that was verified at the end of each day (UTC), kept as long as the suite says.
Pure.

The first move of `verified` after the end of a day creates the tag where the branch was, in the commit that moves the
branch. A tag is never moved: it keeps what was verified that day. A day without a move has no tag; nothing was verified
between it and the next day that has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakeward.quality.ranges.snapshot_chain import History

DAILY: Final = "verified-"
"""Prefix of the names; a day follows, as `2026-03-01`."""


@dataclass(frozen=True)
class Tag:
    """A tag to create. `keep`: expiry may drop it once its snapshot is older."""

    name: str
    snapshot: int
    keep: timedelta


def today(at: datetime) -> datetime:
    """The start of the day of a moment, UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def tag(now: History, proven: int | None, at: datetime, keep: timedelta) -> Tag | None:
    """The tag of the previous day, before the branch moves; None if none is to be created.

    Args:
        now: the metadata the branch is moved on.
        proven: the snapshot of the newest proof of a run that began before `today(at)`.
        at: when this run began, UTC.
        keep: the maximum age of its snapshot.
    """
    name = f"{DAILY}{today(at) - timedelta(days=1):%Y-%m-%d}"
    verified = now.snapshots.get(now.verified) if now.verified is not None else None
    if name in now.refs or verified is None or verified.id != proven or at - verified.at >= keep:
        return None
    return Tag(name, verified.id, keep)
