"""The text of a check run, for a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakeward.cli.quality.text import PASSES, run_text
from lakeward.quality.ranges.range import Kind, Range
from lakeward.quality.results.records import Result
from lakeward.quality.verdicts.verdict import Check, State, Verdict

FOUND = Range("ns.t", Kind.EMPTY, None, None, (), "first check")
FINE = Check("c", "expect_column_values_to_be_between", "warning", State.PASS, {"column": "a"}, by="rows", observed="o")
BAD = replace(FINE, state=State.FAIL, rows=20, unexpected_count=2, sample=({"a": 1},))


def told(*checks: Check) -> list[str]:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return run_text(Result("r1", at, "ns.t", "d", "increment", FOUND, Verdict.WARN, checks).document()).splitlines()


def test_a_run_of_three_hundred_checks_lists_its_trouble_and_counts_the_rest() -> None:
    fine = [replace(FINE, id=f"{number:012x}") for number in range(295)]
    bad = [replace(BAD, id=f"bad{number}") for number in range(4)]
    story = told(*fine, replace(FINE, id="skip", state=State.SKIPPED), *bad)
    assert len(story) < PASSES + 20
    assert [line.split()[:4] for line in story if line.startswith("  fail ")] == [
        ["fail", "warning", "column_values_to_be_between(a)", f"bad{number}"] for number in range(4)
    ], "checks of one name are told apart by their id"
    assert sum(line.startswith("  pass ") for line in story) == PASSES
    assert "  and       256 more checks (255 pass and 1 skipped); all of them: -o json" in story


@pytest.mark.parametrize("count", [1, PASSES, PASSES + 1])
def test_a_few_checks_are_all_listed(count: int) -> None:
    story = told(*(replace(FINE, id=f"c{number}", kwargs={"column": f"a{number}"}) for number in range(count)))
    assert sum(line.startswith("  pass ") for line in story) == count
    assert not any("more checks" in line for line in story)
    assert "column_values_to_be_between(a0)  " in "\n".join(story), "no id where the name is enough"
