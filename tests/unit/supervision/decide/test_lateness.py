"""When late rows are more than a few, and when that is over again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.supervision.decide.lateness import judge

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def wrong(*, reported: bool = False, ahead_s: float | None = 3600.0, **late: Any) -> str | None:
    seen: Any = SimpleNamespace(late=late or None)
    return judge(seen, NOW, ahead_s=ahead_s, reported=reported)


def test_nothing_is_wrong_without_a_report_a_state_or_a_late_row() -> None:
    assert judge(None, NOW, ahead_s=1.0, reported=False) is None
    assert wrong() is None
    assert wrong(batches=20, dropped=0, kept=0, watermark=None) is None
    assert wrong(batches=20, dropped=0, kept=900, watermark="2026-11-21T02:50:00.000Z") is None
    assert wrong(watermark="not a time") is None


def test_a_watermark_ahead_of_the_clock_says_how_far() -> None:
    text = wrong(batches=1, dropped=0, kept=1, watermark="2099-01-01T00:00:00.000Z")
    assert text is not None
    assert text.startswith("its watermark is 2099-01-01 00:00:00 UTC, ")
    assert "ahead of the clock: every record that is earlier is dropped as late" in text


def test_it_is_over_when_the_clock_has_passed_the_watermark_and_not_before() -> None:
    near = (NOW + timedelta(minutes=30)).isoformat()
    assert wrong(watermark=near) is None
    assert wrong(watermark=near, reported=True) is not None
    assert wrong(watermark=(NOW - timedelta(seconds=1)).isoformat(), reported=True) is None


def test_a_source_that_may_be_read_at_any_time_is_not_compared_with_the_clock() -> None:
    assert wrong(watermark="2099-01-01T00:00:00.000Z", ahead_s=None) is None


@pytest.mark.parametrize(
    ("batches", "dropped", "kept", "reported", "is_wrong"),
    [
        (20, 51, 49, False, True),
        (20, 50, 50, False, False),
        (20, 50, 50, True, True),  # about the bound it is the same incident
        (20, 11, 89, True, True),
        (20, 10, 90, True, False),
        (2, 100, 0, False, False),
        (3, 100, 0, False, True),
    ],
)
def test_most_rows_late_opens_and_only_a_few_close(
    batches: int, dropped: int, kept: int, reported: bool, is_wrong: bool
) -> None:
    text = wrong(batches=batches, dropped=dropped, kept=kept, reported=reported)
    assert (text is not None) is is_wrong
    if text is not None:
        assert f"{dropped / (dropped + kept):.0%} of the rows of its last {batches} batches were dropped" in text
