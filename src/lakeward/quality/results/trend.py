"""Trend of a table's checks from run to run: failing since, recovered, cost. Pure.

A run that skipped a check does not count for it. A run that could not compute it ends neither a failure nor a recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from lakeward.quality.verdicts.verdict import State
from lakeward.registry.verifications import CheckResult, Verification

_SHOWN = 30  # maximum points of a trend
_STEADY = 0.1  # shares that differ by less than a tenth count as equal


class Point(TypedDict):
    """One result of a check."""

    at: datetime
    state: str
    unexpected_count: int | None
    rows: int | None


class FailingSince(TypedDict):
    """The first run that saw a failure, and its first bad snapshot, if known. `noun`: snapshot | version."""

    run: str
    at: datetime
    to_snapshot: int | None
    snapshot: int | None
    noun: str


class Recovered(TypedDict):
    """The first pass after a failure, and how long the failure lasted."""

    run: str
    at: datetime
    snapshot: int | None
    failed_from: datetime
    failed_s: float


class Trend(TypedDict):
    """One check of the newest run that had checks, over all runs.

    Attributes:
        since: when the state began.
        points: oldest first.
        direction: `growing`, `steady` or `falling` of a failure with two points at least.
    """

    check: str
    expectation: str
    kwargs: dict[str, object]
    severity: str
    state: str
    since: datetime
    failing_since: FailingSince | None
    recovered: Recovered | None
    runs: int
    failures: int
    errors: int
    points: list[Point]
    direction: str | None


class RunLine(TypedDict):
    """One run in the JSON of `quality history`."""

    run: str
    at: datetime
    verdict: str
    scope: str
    from_snapshot: int | None
    to_snapshot: int | None
    first_bad_snapshot: int | None
    verified_snapshot: int | None
    spark_jobs: int | None
    duration_s: float | None


class Cost(TypedDict):
    """The total cost of the runs; `cpu_s` is that of the checking process."""

    runs: int
    spark_jobs: int
    duration_s: float
    cpu_s: float


class History(TypedDict):
    """The JSON of `quality history`; `runs` newest first."""

    table: str
    runs: list[RunLine]
    checks: list[Trend]
    cost: Cost


@dataclass(frozen=True)
class _Seen:
    """A check in the run that had it."""

    check: CheckResult
    run: Verification


def trends(runs: Sequence[Verification], checks: Mapping[str, Sequence[CheckResult]]) -> list[Trend]:
    """The trend of each check of the newest run that had checks.

    Args:
        runs: newest first.
        checks: run -> its checks.
    """
    newest = next((checks[run["run"]] for run in runs if checks.get(run["run"])), ())
    history: dict[str, list[_Seen]] = {check["check"]: [] for check in newest}
    for run in runs:
        for check in checks.get(run["run"], ()):
            if check["check"] in history:
                history[check["check"]].append(_Seen(check, run))
    return [_trend(name, found) for name, found in history.items()]


def shown(runs: Sequence[Verification]) -> list[RunLine]:
    """The runs as `quality history` shows them."""
    return [
        {
            "run": run["run"],
            "at": run["at"],
            "verdict": run["verdict"],
            "scope": run["scope"],
            "from_snapshot": run["from_snapshot"],
            "to_snapshot": run["to_snapshot"],
            "first_bad_snapshot": run["first_bad_snapshot"],
            "verified_snapshot": run["verified_snapshot"],
            "spark_jobs": run["spark_jobs"],
            "duration_s": run["duration_s"],
        }
        for run in runs
    ]


def cost(runs: Sequence[Verification]) -> Cost:
    """The total cost of the runs."""
    return {
        "runs": len(runs),
        "spark_jobs": sum(run["spark_jobs"] or 0 for run in runs),
        "duration_s": round(sum(run["duration_s"] or 0 for run in runs), 1),
        "cpu_s": round(sum(run.get("cpu_s") or 0 for run in runs), 1),
    }


def _trend(name: str, found: list[_Seen]) -> Trend:
    newest = found[0]
    decided = [seen for seen in found if seen.check["state"] in (State.PASS, State.FAIL)]
    streak = _streak(decided)
    failing = bool(streak) and streak[0].check["state"] == State.FAIL
    before = decided[len(streak) :]
    facts = newest.check["observed"] or {}
    points = [_point(seen) for seen in reversed(found[:_SHOWN])]
    return {
        "check": name,
        "expectation": newest.check["expectation"],
        "kwargs": facts.get("kwargs") or {},
        "severity": newest.check["severity"],
        "state": newest.check["state"],
        "since": streak[-1].run["at"] if streak else newest.run["at"],
        "failing_since": _moment(streak[-1].run) if failing else None,
        "recovered": _recovery(streak, before) if streak and not failing and before else None,
        "runs": len(found),
        "failures": sum(seen.check["state"] == State.FAIL for seen in found),
        "errors": sum(seen.check["state"] == State.ERROR for seen in found),
        "points": points,
        "direction": _direction(points) if failing else None,
    }


def _streak(decided: list[_Seen]) -> list[_Seen]:
    """The newest results with the same state, newest first."""
    state = decided[0].check["state"] if decided else ""
    length = next((at for at, seen in enumerate(decided) if seen.check["state"] != state), len(decided))
    return decided[:length]


def _moment(run: Verification) -> FailingSince:
    return {
        "run": run["run"],
        "at": run["at"],
        "to_snapshot": run["to_snapshot"],
        "snapshot": run["first_bad_snapshot"],
        "noun": "snapshot" if run.get("to_commit") is None else "version",
    }


def _recovery(streak: list[_Seen], before: list[_Seen]) -> Recovered:
    first, failed = streak[-1].run, _streak(before)
    began = failed[-1].run["at"]
    return {
        "run": first["run"],
        "at": first["at"],
        "snapshot": first["to_snapshot"],
        "failed_from": began,
        "failed_s": round((first["at"] - began).total_seconds(), 1),
    }


def _point(seen: _Seen) -> Point:
    return {
        "at": seen.run["at"],
        "state": seen.check["state"],
        "unexpected_count": seen.check["unexpected_count"],
        "rows": (seen.check["observed"] or {}).get("rows"),
    }


def _direction(points: Sequence[Point]) -> str | None:
    """Compares the shares of failing rows of the two newest failures."""
    shares = [
        point["unexpected_count"] / point["rows"]
        for point in points
        if point["state"] == State.FAIL and point["rows"] and point["unexpected_count"]
    ]
    if len(shares) < 2:
        return None
    before, now = shares[-2:]
    if abs(now - before) <= _STEADY * before:
        return "steady"
    return "growing" if now > before else "falling"
