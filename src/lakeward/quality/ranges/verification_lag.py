"""The verification lag of a table: what has landed that nothing proves yet, since when, and when that is late. Pure.

How late a table is counts from the first look that saw its oldest unproven commit: who was away for a night, or begins
with a table of last year, gets the chance to catch up before anybody is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lakeward.quality.ranges.range import Range
from lakeward.spec.model.suite import SuiteLimits
from lakeward.spec.model.types import Duration

LIMIT: Duration = SuiteLimits().verification_lag
"""Of a suite that says nothing: checks that work take a minute or two."""


@dataclass(frozen=True)
class Lag:
    """What waits for a proof.

    Attributes:
        snapshots: commits that changed rows.
        rows: the rows that appends among them added; an overwrite states the rows of whole files.
        oldest, since: the first of them, and when it was committed, UTC; None when nothing waits.
    """

    snapshots: int = 0
    rows: int = 0
    oldest: int | None = None
    since: datetime | None = None

    def document(self, now: datetime) -> dict[str, Any]:
        """As JSON data, `lag_s` by the clock of `now`."""
        age = (now - self.since).total_seconds() if self.since is not None else 0.0
        return {"snapshots": self.snapshots, "rows": self.rows, "since": self.since, "lag_s": round(max(0.0, age), 1)}


def lag(found: Range | None) -> Lag:
    """What of a range waits: compactions and batches without rows change nothing anybody could see."""
    waiting = [
        each
        for each in (found.snapshots if found is not None else ())
        if each.operation in ("overwrite", "delete") or (each.operation == "append" and each.added)
    ]
    if not waiting:
        return Lag()
    rows = sum(each.added for each in waiting if each.operation == "append")
    return Lag(len(waiting), rows, waiting[0].id, waiting[0].at)


def first_seen(now: datetime, lags: Mapping[str, Lag], before: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Table -> `{oldest, at}`: the oldest commit that waits, and the look that saw it first.

    Args:
        before: the same of the last look.
    """
    found: dict[str, dict[str, Any]] = {}
    for table, each in lags.items():
        known = before.get(table) or {}
        if each.oldest is not None:
            same = known.get("oldest") == each.oldest
            found[table] = {"oldest": each.oldest, "at": known["at"] if same else now.isoformat()}
    return found


def late_s(now: datetime, each: Lag, seen: Mapping[str, Any] | None, limit: timedelta) -> float | None:
    """For how long the commit has waited, in seconds, when that is longer than the limit; else None."""
    if each.since is None or seen is None:
        return None
    waits = now - max(each.since, datetime.fromisoformat(seen["at"]))
    return (now - each.since).total_seconds() if waits > limit else None
