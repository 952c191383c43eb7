from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakeward.supervision.decide.schedule import last_due

HOURLY = "0 * * * *"


def at(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2026, 3, 1, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "due"),
    [(at(12, 7), at(12, 0)), (at(12, 0), at(12, 0)), (at(12, 0, 31), at(12, 0)), (at(11, 59), at(11, 0))],
)
def test_the_newest_moment_that_is_not_in_the_future(now: datetime, due: datetime) -> None:
    assert last_due(HOURLY, now) == due


def test_its_hours_are_utc_whatever_zone_the_moment_is_written_in() -> None:
    there = at(12, 7).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert last_due("0 6 * * *", there) == at(6, 0)
