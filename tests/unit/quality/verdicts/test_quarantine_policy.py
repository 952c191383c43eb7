"""What `on_fail: quarantine` says of a held run: which rows go, and what is for a person."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.quality.verdicts.quarantine_policy import MOST, Decision, decide, too_many
from lakeward.quality.verdicts.verdict import Verdict


def failed(column: str, on_fail: str = "quarantine", **more: Any) -> dict[str, Any]:
    return {
        "id": f"c-{column}", "expectation": "expect_column_values_to_not_be_null", "kwargs": {"column": column},
        "state": "fail", "effect": "hold", "on_fail": on_fail, "scope": "increment", "rows": 1000,
        "unexpected_count": 40, **more,
    }  # fmt: skip


NAME = "column_values_to_not_be_null"


def test_the_few_failing_rows_of_all_that_holds_go() -> None:
    checks = [
        failed("a"),
        failed("b", unexpected_count=1),
        failed("c", state="pass"),
        failed("d", "warn", effect="warn"),
    ]
    why = f"40 rows that fail {NAME}(a); 1 row that fails {NAME}(b) go to quarantine"
    assert decide(Verdict.HOLD, checks) == Decision(("c-a", "c-b"), why)


@pytest.mark.parametrize(
    ("verdict", "checks"),
    [
        (Verdict.HOLD, [failed("a", "hold")]),
        (Verdict.WARN, [failed("a", effect="warn")]),  # waived
        (Verdict.ERROR, [failed("a")]),
        (Verdict.HOLD, [failed("a", "hold"), failed("b", effect="warn")]),
    ],
)
def test_of_other_runs_the_policy_says_nothing(verdict: Verdict, checks: list[dict[str, Any]]) -> None:
    assert decide(verdict, checks) is None


@pytest.mark.parametrize(
    ("checks", "obstacle", "why"),
    [
        ([failed("a"), failed("b", "hold")], "", f"{NAME}(b) holds too, and needs a person's decision"),
        ([failed("a", scope="table")], "", f"{NAME}(a) reads verified rows too (scope: table)"),
        ([failed("a", unexpected_count=None)], "", f"the rows that fail {NAME}(a) cannot be selected one by one"),
        ([failed("a")], "stream s: lineage is none", "stream s: lineage is none"),
        ([failed("a"), failed("b", unexpected_count=61)], "",
         "101 of 1,000 rows fail: more than one in 10 needs a person's decision"),
    ],
)  # fmt: skip
def test_a_person_decides_and_sees_why(checks: list[dict[str, Any]], obstacle: str, why: str) -> None:
    assert decide(Verdict.HOLD, checks, obstacle) == Decision((), why)


def test_few_rows_go_also_of_few_and_never_very_many() -> None:
    assert (too_many(10, 10), too_many(100, 1000)) == ("", "")
    assert too_many(11, 12) and too_many(101, 1000)
    assert "more than 100,000" in too_many(MOST + 1, 50_000_000)
