from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.quality.ranges.due import decide
from lakeward.quality.ranges.range import decide as range_of
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.spec.model.suite import Suite

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def suite() -> Suite:
    check = {"type": "expect_column_to_exist", "kwargs": {"column": "id"}}
    return Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": [check]})


def newest(asked: Suite, verdict: str = "hold", to: int = 2) -> dict[str, Any]:
    return {
        "run": "r",
        "to_snapshot": to,
        "verdict": verdict,
        "suite": asked.digest,
        "at": NOW,
    }


def test_nothing_new_is_not_due(line) -> None:
    assert not decide(range_of(line("append"), [Mark(1, 1)]), suite(), None).due
    assert not decide(range_of(line(), []), suite(), None).due


def test_an_unproven_head_is_due(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert decide(found, suite(), None).due
    assert decide(found, suite(), newest(suite(), "pass", to=1)).due
    assert decide(found, suite(), newest(suite(), "hold", to=1)).due


def test_a_held_head_is_not_checked_over_and_over(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    decided = decide(found, suite(), newest(suite()))
    assert not decided.due and "held" in decided.why


@pytest.mark.parametrize("verdict", ["error", "pass"])
def test_what_could_not_be_checked_or_published_is_due_again(line, verdict: str) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert decide(found, suite(), newest(suite(), verdict)).due


def test_a_held_head_is_due_when_the_suite_or_a_waiver_changed(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    other = suite().model_copy(update={"owner": "somebody else"})
    assert decide(found, other, newest(suite())).due
    assert decide(found, suite(), newest(suite()), {"c"}).due, "a waiver began"
    assert decide(found, suite(), newest(suite()), set(), {"c"}).due, "a waiver ended"
    assert not decide(found, suite(), newest(suite()), {"c"}, {"c"}).due


def test_the_same_version_of_a_table_made_again_is_due(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert found.head is not None
    again = replace(found, head=replace(found.head, commit="v/t2"))
    held = {**newest(suite()), "to_commit": "u/t2"}
    assert not decide(replace(found, head=replace(found.head, commit="u/t2")), suite(), held).due
    assert decide(again, suite(), held).due
