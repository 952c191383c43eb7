"""What waits for a proof, and when that is late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.range import decide as range_of
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.ranges.verification_lag import Lag, check_due, first_seen, lag, late_s
from lakeward.spec.model.suite import Suite

LIMIT = timedelta(minutes=30)


@pytest.mark.parametrize(
    ("operations", "proven", "waiting"),
    [
        (("append", "append", "append"), 1, (2, 20, 2)),
        (("append", "append", "append"), 3, (0, 0, None)),
        (("append", "replace", "append"), 1, (1, 10, 3)),
        (("append", "replace"), 1, (0, 0, None)),  # a compaction shows nobody anything new
        (("append", "overwrite", "delete"), 1, (2, 0, 2)),  # an overwrite states rows it only carried over
        (("append", "append"), None, (2, 20, 1)),
    ],
)
def test_what_changed_rows_since_the_proof_waits(line, operations, proven, waiting) -> None:
    history = line(*operations)
    found = lag(decide(history, [Mark(proven, proven)] if proven else []))
    assert (found.snapshots, found.rows, found.oldest) == waiting
    assert found.since == (history.snapshots[found.oldest].at if found.oldest else None)


def test_a_batch_without_rows_and_a_table_that_is_gone_wait_for_nothing(line) -> None:
    history = line("append", "append")
    empty = replace(history.snapshots[2], added=0)
    found = decide(replace(history, snapshots={**history.snapshots, 2: empty}), [Mark(1, 1)])
    assert lag(found) == lag(None) == Lag()


def test_lateness_counts_from_the_first_look_that_saw_the_oldest_commit(line) -> None:
    found = lag(decide(line("append", "append"), [Mark(1, 1)]))
    assert found.since is not None
    day_later = found.since + timedelta(days=1)
    seen = first_seen(day_later, {"t": found}, {})
    assert late_s(day_later + timedelta(minutes=29), found, seen["t"], LIMIT) is None
    later = day_later + timedelta(minutes=31)
    seen = first_seen(later, {"t": found}, seen)  # the same commit waits: the first look counts on
    assert late_s(later, found, seen["t"], LIMIT) == pytest.approx(86_400 + 31 * 60)


def test_another_commit_that_waits_begins_again_and_a_proof_ends_it(line) -> None:
    found = lag(decide(line("append", "append"), [Mark(1, 1)]))
    now = found.since + timedelta(hours=2)
    assert first_seen(now, {"t": found}, {"t": {"oldest": 99, "at": "2020-01-01T00:00:00+00:00"}}) == {
        "t": {"oldest": found.oldest, "at": now.isoformat()}
    }
    assert first_seen(now, {"t": Lag()}, {"t": {"oldest": 2, "at": "2020-01-01T00:00:00+00:00"}}) == {}
    assert late_s(now, Lag(), None, LIMIT) is None


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
    assert not check_due(range_of(line("append"), [Mark(1, 1)]), suite(), None).due
    assert not check_due(range_of(line(), []), suite(), None).due


def test_an_unproven_head_is_due(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert check_due(found, suite(), None).due
    assert check_due(found, suite(), newest(suite(), "pass", to=1)).due
    assert check_due(found, suite(), newest(suite(), "hold", to=1)).due


def test_a_held_head_is_not_checked_over_and_over(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    decided = check_due(found, suite(), newest(suite()))
    assert not decided.due and "held" in decided.why


@pytest.mark.parametrize("verdict", ["error", "pass"])
def test_what_could_not_be_checked_or_published_is_due_again(line, verdict: str) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert check_due(found, suite(), newest(suite(), verdict)).due


def test_a_held_head_is_due_when_the_suite_or_a_waiver_changed(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    other = suite().model_copy(update={"owner": "somebody else"})
    assert check_due(found, other, newest(suite())).due
    assert check_due(found, suite(), newest(suite()), {"c"}).due, "a waiver began"
    assert check_due(found, suite(), newest(suite()), set(), {"c"}).due, "a waiver ended"
    assert not check_due(found, suite(), newest(suite()), {"c"}, {"c"}).due


def test_the_same_version_of_a_table_made_again_is_due(line) -> None:
    found = range_of(line("append", "append"), [Mark(1, 1)])
    assert found.head is not None
    again = replace(found, head=replace(found.head, commit="v/t2"))
    held = {**newest(suite()), "to_commit": "u/t2"}
    assert not check_due(replace(found, head=replace(found.head, commit="u/t2")), suite(), held).due
    assert check_due(again, suite(), held).due
