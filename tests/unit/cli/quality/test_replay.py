"""`quality replay`: what is asked for, and how it is told."""

from __future__ import annotations

from typing import Any

from lakeward.cli.quality.replay import text


def test_a_table_nobody_lands_in_is_refused_with_those_that_can(site: Any) -> None:
    answer = site.lakeward("quality", "replay", "nyc.nothing", "--dry-run")
    assert answer.code == 2
    assert "No stream lands in nyc.nothing" in answer.err
    assert "tables with a quarantine: " in answer.err and "nyc.flights" in answer.err

    answer = site.lakeward("quality", "replay", "nyc.flights_quarantine", "--dry-run")
    assert answer.code == 2
    assert "next: lakeward quality replay nyc.flights" in answer.err


def test_a_change_needs_its_reason(site: Any) -> None:
    answer = site.lakeward("quality", "replay", "nyc.flights")
    assert answer.code == 2
    assert "--comment" in answer.err


def test_what_a_person_reads() -> None:
    found: dict[str, Any] = {
        "stream": "s", "generation": 2, "table": "a.t", "found": 1200, "landed": 1000, "filtered": 50, "present": 3,
        "failing": [{"reason": "small", "count": 140, "errors": ["not: n < 9"]}],
        "left": [{"why": "its record is gone", "count": 7}], "dry_run": True, "pending_generation": 3,
    }  # fmt: skip
    assert text(found) == [
        "s: 1,000 of 1,200 records would land in a.t by generation 2",
        "  filtered  50: the transform filters them now",
        "  present   3: the table has them already",
        "  still bad 140: small: not: n < 9",
        "  left      7: its record is gone",
        "  next      generation 3 is pending; replay uses the running one: lakeward streams upgrade s",
    ]
    quiet = {**found, "dry_run": False, "filtered": 0, "present": 0, "failing": [], "left": []}
    assert text(quiet) == ["s: 1,000 of 1,200 records landed in a.t by generation 2"]
