from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeward.quality.publishing.audit_tags import Tag, tag, today
from lakeward.spec.model.suite import Suite

WEEK = timedelta(days=7)
AT = datetime(2026, 11, 22, 0, 7, tzinfo=UTC)  # the histories of `line` end at noon of the 21st


def test_the_first_move_after_a_day_leaves_a_tag_where_the_branch_stood(line) -> None:
    history = line("append", "append", verified=1)
    assert tag(history, 1, AT, WEEK) == Tag("verified-2026-11-21", 1, WEEK)
    assert today(AT) == datetime(2026, 11, 22, tzinfo=UTC)


def test_a_day_that_has_its_tag_keeps_it(line) -> None:
    history = replace(line("append", "append", verified=1), refs=frozenset({"main", "verified-2026-11-21"}))
    assert tag(history, 1, AT, WEEK) is None
    assert tag(replace(history, refs=frozenset({"verified-2026-11-20"})), 1, AT, WEEK) is not None


@pytest.mark.parametrize("proven", [None, 2])
def test_only_what_was_proven_before_the_day_was_over_is_tagged(line, proven: int | None) -> None:
    assert tag(line("append", "append", verified=1), proven, AT, WEEK) is None


def test_no_tag_that_an_expiry_would_take_at_once_and_none_of_nothing(line) -> None:
    assert tag(line("append", "append", verified=1), 1, AT + WEEK, WEEK) is None
    assert tag(line("append"), None, AT, WEEK) is None


def test_the_age_of_a_tag_is_two_days_at_least() -> None:
    suite = {"table": "n.t", "owner": "x", "expectations": [{"type": "expect_table_row_count_to_equal"}]}
    assert Suite.model_validate({**suite, "audit_tags": "7d"}).audit_tags == "7d"
    with pytest.raises(ValueError, match="2d at least"):
        Suite.model_validate({**suite, "audit_tags": "1d"})
