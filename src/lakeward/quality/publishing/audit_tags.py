"""Tags for audits: what was proven by the end of each day (UTC), readable for as long as the suite says. Pure.

The first move of `verified` after a day is over leaves the tag where the branch stood, in the commit that moves it. It
is never moved: a day keeps what was proven then. A day without a move has no tag; nothing was proven between it and
the next day that has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakeward.quality.ranges.snapshot_chain import History

DAILY: Final = "verified-"
"""What the names begin with; a day follows, as `2026-03-01`."""


@dataclass(frozen=True)
class Tag:
    """A tag to be made. `keep`: an expiry takes it once its snapshot is older."""

    name: str
    snapshot: int
    keep: timedelta


def today(at: datetime) -> datetime:
    """When the day of a moment began, UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def tag(now: History, proven: int | None, at: datetime, keep: timedelta) -> Tag | None:
    """The tag of the day that is over, before the branch leaves where it stands; None where there is none to make.

    Args:
        now: the metadata the branch is moved on.
        proven: the snapshot of the newest proof of a run that began before `today(at)`.
        at: when this run began, UTC.
        keep: how old its snapshot may become.
    """
    name = f"{DAILY}{today(at) - timedelta(days=1):%Y-%m-%d}"
    stands = now.snapshots.get(now.verified) if now.verified is not None else None
    if name in now.refs or stands is None or stands.id != proven or at - stands.at >= keep:
        return None
    return Tag(name, stands.id, keep)
