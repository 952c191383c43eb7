"""Trend of a table's checks from run to run: failing since, recovered, cost. Pure.

A run that skipped a check does not count for it. A run that could not compute it ends neither a failure nor a recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.quality.verdicts.verdict import State

Row = Mapping[str, Any]
_SHOWN = 30  # maximum points of a trend
_STEADY = 0.1  # shares that differ by less than a tenth count as equal


def trends(runs: Sequence[Row], checks: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """One document for each check of the newest run that had checks.

    Args:
        runs: columns of `registry.schema.verifications`, newest first.
        checks: run -> its checks, columns of `registry.schema.checks`.

    Returns:
        `{check, expectation, kwargs, severity, state, since, failing_since, recovered, runs, failures, errors, points,
        direction}`; `failing_since` and `recovered` are `{run, at, snapshot, ..}` or None, `since` is when the state
        began, `points` are `{at, state, unexpected_count, rows}`, oldest first, `direction` is `growing`, `steady` or
        `falling` of a failure with two points at least.
    """
    newest = next((checks[run["run"]] for run in runs if checks.get(run["run"])), ())
    history: dict[str, list[dict[str, Any]]] = {check["check"]: [] for check in newest}
    for run in runs:
        for check in checks.get(run["run"], ()):
            if check["check"] in history:
                history[check["check"]].append({**check, "of": run})
    return [_trend(name, found) for name, found in history.items()]


def cost(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The total cost of the runs: `{runs, spark_jobs, duration_s, cpu_s}`; `cpu_s` is that of the checking process."""
    return {
        "runs": len(runs),
        "spark_jobs": sum(run["spark_jobs"] or 0 for run in runs),
        "duration_s": round(sum(run["duration_s"] or 0 for run in runs), 1),
        "cpu_s": round(sum(run.get("cpu_s") or 0 for run in runs), 1),
    }


def _trend(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    newest = found[0]
    decided = [check for check in found if check["state"] in (State.PASS, State.FAIL)]
    streak = _streak(decided)
    failing = bool(streak) and streak[0]["state"] == State.FAIL
    before = decided[len(streak) :]
    facts = newest["observed"] or {}
    points = [_point(check) for check in reversed(found[:_SHOWN])]
    return {
        "check": name,
        "expectation": newest["expectation"],
        "kwargs": facts.get("kwargs") or {},
        "severity": newest["severity"],
        "state": newest["state"],
        "since": streak[-1]["of"]["at"] if streak else newest["of"]["at"],
        "failing_since": _moment(streak[-1]) if failing else None,
        "recovered": _recovery(streak, before) if streak and not failing and before else None,
        "runs": len(found),
        "failures": sum(check["state"] == State.FAIL for check in found),
        "errors": sum(check["state"] == State.ERROR for check in found),
        "points": points,
        "direction": _direction(points) if failing else None,
    }


def _streak(decided: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest results with the same state, newest first."""
    length = next((at for at, each in enumerate(decided) if each["state"] != decided[0]["state"]), len(decided))
    return decided[:length]


def _moment(check: Mapping[str, Any]) -> dict[str, Any]:
    """The first run that saw the failure, and its first bad snapshot, if known."""
    run = check["of"]
    return {
        **{key: run[key] for key in ("run", "at", "to_snapshot")},
        "snapshot": run["first_bad_snapshot"],
        "noun": "snapshot" if run.get("to_commit") is None else "version",
    }


def _recovery(streak: list[dict[str, Any]], before: list[dict[str, Any]]) -> dict[str, Any]:
    """The first pass after a failure, and how long the failure lasted."""
    first, failed = streak[-1]["of"], _streak(before)
    began = failed[-1]["of"]["at"]
    return {
        "run": first["run"],
        "at": first["at"],
        "snapshot": first["to_snapshot"],
        "failed_from": began,
        "failed_s": round((first["at"] - began).total_seconds(), 1),
    }


def _point(check: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at": check["of"]["at"],
        "state": check["state"],
        "unexpected_count": check["unexpected_count"],
        "rows": (check["observed"] or {}).get("rows"),
    }


def _direction(points: Sequence[Mapping[str, Any]]) -> str | None:
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
