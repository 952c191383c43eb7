from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from lakeward.quality.due import decide
from lakeward.quality.lineage import Mark
from lakeward.quality.range import decide as range_of
from lakeward.spec.suite import Suite

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

TODAY = NOW.date()


def suite(waive_until: date | None = None) -> Suite:
    check = {"type": "expect_column_to_exist", "kwargs": {"column": "id"}, "waive_until": waive_until}
    return Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": [check]})


def newest(asked: Suite, verdict: str = "hold", to: int = 2, days_ago: int = 0) -> dict[str, Any]:
    return {
        "run": "r",
        "to_snapshot": to,
        "verdict": verdict,
        "suite": asked.digest,
        "at": NOW - timedelta(days=days_ago),
    }


def test_nothing_new_is_not_due(line) -> None:
    assert not decide(range_of(line("append"), [Mark(1, 1)]), suite(), None, TODAY).due
    assert not decide(range_of(line(), []), suite(), None, TODAY).due


def test_an_unproven_head_is_due(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert decide(found, suite(), None, TODAY).due
    assert decide(found, suite(), newest(suite(), "pass", to=1), TODAY).due
    assert decide(found, suite(), newest(suite(), "hold", to=1), TODAY).due


def test_a_held_head_is_not_checked_over_and_over(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    decided = decide(found, suite(), newest(suite()), TODAY)
    assert not decided.due and "held" in decided.why


@pytest.mark.parametrize("verdict", ["error", "pass"])
def test_what_could_not_be_checked_or_published_is_due_again(line, verdict: str) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert decide(found, suite(), newest(suite(), verdict), TODAY).due


def test_a_held_head_is_due_when_the_suite_or_a_waiver_changed(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    yesterday = TODAY - timedelta(days=1)
    assert decide(found, suite(TODAY), newest(suite()), TODAY).due
    assert decide(found, suite(yesterday), newest(suite(yesterday), days_ago=1), TODAY).due
    assert not decide(found, suite(yesterday), newest(suite(yesterday)), TODAY).due
