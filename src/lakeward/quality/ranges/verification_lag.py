"""Verification lag: how far the proof of a table is behind, and whether the table is due for a check. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from lakeward.quality.ranges.range import Kind, Range
from lakeward.quality.verdicts.verdict import Verdict
from lakeward.spec.model.suite import Suite, SuiteLimits
from lakeward.spec.model.types import Duration

LIMIT: Duration = SuiteLimits().verification_lag
"""Default for a suite without a limit: working checks take a minute or two."""


class LagDocument(TypedDict):
    """The lag as JSON data; `lag_s` is relative to the time of the document."""

    snapshots: int
    rows: int
    since: datetime | None
    lag_s: float


class FirstSeen(TypedDict):
    """The oldest commit that waits, and the time (RFC 3339) of the observation that saw it first."""

    oldest: int
    at: str


@dataclass(frozen=True)
class Lag:
    """The commits that are not proven yet.

    Attributes:
        snapshots: commits that changed rows.
        rows: the rows that the appends added; an overwrite only states the rows of whole files.
        oldest, since: the first of them, and its commit time, UTC; None when there are none.
    """

    snapshots: int = 0
    rows: int = 0
    oldest: int | None = None
    since: datetime | None = None

    def document(self, now: datetime) -> LagDocument:
        """As JSON data, with `lag_s` relative to `now`."""
        age = (now - self.since).total_seconds() if self.since is not None else 0.0
        return {"snapshots": self.snapshots, "rows": self.rows, "since": self.since, "lag_s": round(max(0.0, age), 1)}


def lag(found: Range | None) -> Lag:
    """The lag of a range. Compactions and batches without rows do not count: they change no visible data."""
    waiting = [
        snapshot
        for snapshot in (found.snapshots if found is not None else ())
        if snapshot.operation in ("overwrite", "delete") or (snapshot.operation == "append" and snapshot.added)
    ]
    if not waiting:
        return Lag()
    rows = sum(snapshot.added for snapshot in waiting if snapshot.operation == "append")
    return Lag(len(waiting), rows, waiting[0].id, waiting[0].at)


def first_seen(now: datetime, lags: Mapping[str, Lag], before: Mapping[str, FirstSeen]) -> dict[str, FirstSeen]:
    """Table -> `{oldest, at}`: the oldest commit that waits, and the time of the observation that saw it first.

    Args:
        before: the result of the previous observation.
    """
    found: dict[str, FirstSeen] = {}
    for table, each in lags.items():
        known = before.get(table)
        if each.oldest is not None:
            same = known is not None and known["oldest"] == each.oldest
            found[table] = {"oldest": each.oldest, "at": known["at"] if known and same else now.isoformat()}
    return found


def late_s(now: datetime, each: Lag, seen: FirstSeen | None, limit: timedelta) -> float | None:
    """How long the commit has waited, in seconds, if that exceeds the limit; else None."""
    if each.since is None or seen is None:
        return None
    waits = now - max(each.since, datetime.fromisoformat(seen["at"]))
    return (now - each.since).total_seconds() if waits > limit else None


@dataclass(frozen=True)
class Due:
    """Whether to check, and the reason, as a clause."""

    due: bool
    why: str


def check_due(
    found: Range,
    suite: Suite,
    newest: Mapping[str, Any] | None,
    waived: Set[str] = frozenset(),
    waived_then: Set[str] = frozenset(),
) -> Due:
    """Whether the range has to be checked.

    Args:
        found: the range as it is now.
        suite: the table's suite.
        newest: the newest recorded run (columns of `registry.schema.verifications`), if any.
        waived, waived_then: the checks waived now, and in that run.
    """
    if found.kind is Kind.EMPTY or found.head is None:
        return Due(False, found.why)
    if newest is None or (newest["to_snapshot"], newest.get("to_commit")) != (found.head.id, found.head.commit):
        return Due(True, found.why)
    if newest["verdict"] != Verdict.HOLD:
        return Due(True, f"the last run ended with {newest['verdict']}")
    if newest["suite"] != suite.digest:
        return Due(True, "held, and the suite changed since")
    if waived != waived_then:
        return Due(True, "held, and a waiver began or ended since")
    return Due(False, f"held at snapshot {found.head.id} by run {newest['run']}, unchanged since")
