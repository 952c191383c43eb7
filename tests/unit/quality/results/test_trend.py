"""Since when a check fails, when it recovered, and where it goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeward.cli.quality.history import text
from lakeward.quality.results.trend import cost, trends

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
STATES = {".": "pass", "X": "fail", "?": "error", "_": "skipped"}


def told(line: str, counts: tuple[int, ...] = ()) -> dict[str, Any]:
    """The trend of one check from marks, oldest first, an hour apart; each failing run names snapshot 10, 11, .."""
    runs, checks, left = [], {}, list(counts)
    for at, mark in enumerate(line):
        bad = left.pop(0) if mark == "X" and left else None
        runs.append({
            "run": f"r{at}", "at": NOW + timedelta(hours=at), "to_snapshot": 20 + at, "spark_jobs": 2,
            "first_bad_snapshot": 10 + at if mark == "X" else None, "duration_s": 0.5, "verdict": "pass",
        })  # fmt: skip
        checks[f"r{at}"] = [{
            "check": "c", "expectation": "expect_x", "severity": "critical", "state": STATES[mark],
            "observed": {"kwargs": {"column": "a"}, "rows": 100}, "unexpected_count": bad,
        }]  # fmt: skip
    runs.reverse()
    (found,) = trends(runs, checks)
    return {**found, "document": {"table": "n.t", "runs": runs, "checks": [found], "cost": cost(runs)}}


@pytest.mark.parametrize(
    ("line", "failing", "recovered"),
    [
        ("..", None, None),
        (".XX", 1, None),
        ("X", 0, None),
        ("XX.X", 3, None),
        (".X?X_", 1, None),
        (".X?", 1, None),
        (".XX..", None, (3, 1)),
        ("X_.", None, (2, 0)),
        ("?", None, None),
        ("__", None, None),
    ],
)
def test_since_when(line: str, failing: int | None, recovered: tuple[int, int] | None) -> None:
    found = told(line)
    since, back = found["failing_since"], found["recovered"]
    assert (since and since["run"], since and since["snapshot"]) == (
        (None, None) if failing is None else (f"r{failing}", 10 + failing)
    )
    assert (back and back["run"]) == (recovered and f"r{recovered[0]}")
    if recovered:
        assert back["failed_s"] == (recovered[0] - recovered[1]) * 3600


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [((5,), None), ((5, 9), "growing"), ((9, 5), "falling"), ((50, 52), "steady"), ((9, 5, 6), "growing")],
)
def test_where_a_failure_goes(counts: tuple[int, ...], wanted: str | None) -> None:
    assert told("." + "X" * len(counts), counts)["direction"] == wanted


def test_a_check_that_left_the_suite_is_not_reported() -> None:
    runs = [{"run": "b", "at": NOW, "to_snapshot": 2}, {"run": "a", "at": NOW, "to_snapshot": 1}]
    row = {"expectation": "e", "severity": "info", "state": "pass", "observed": None, "unexpected_count": None}
    found = trends(runs, {"a": [{**row, "check": "old"}, {**row, "check": "new"}], "b": [{**row, "check": "new"}]})
    assert [(each["check"], each["runs"]) for each in found] == [("new", 2)]


def test_what_a_person_reads() -> None:
    found = told("..X?X", (5, 9))
    assert text(found["document"], NOW + timedelta(hours=7)).splitlines() == [
        "n.t: 5 runs since 11-21 12:00, newest pass   10 Spark jobs, 2.5 s",
        "  fail    critical x(a)  ..X?X  failing since 11-21 14:00 (5 h), snapshot 12, growing",
    ]
    assert text(told("X.")["document"], NOW).splitlines()[1].endswith("X.  recovered 11-21 13:00 after 60 min")
