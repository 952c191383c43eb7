"""What is usual: silent at first, not moved by a few odd runs, by the hour where days differ."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from lakeward.quality.engine.custom.outlier import Past, judge

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def past(*values: float, every: timedelta = timedelta(minutes=1)) -> list[Past]:
    """Newest first, one before the other from now."""
    return [Past(NOW - every * (index + 1), value) for index, value in enumerate(values)]


@pytest.mark.parametrize("known", [0, 9])
def test_nothing_is_said_of_little_history(known: int) -> None:
    found = judge(1e9, NOW, past(*[100.0] * known), runs=50, at_least=10)
    assert (found.spreads, found.runs) == (None, known)


def test_the_same_every_time_may_change_a_little() -> None:
    same = past(*[100.0] * 20)
    assert abs(judge(110, NOW, same, runs=50, at_least=10).spreads or 0) == pytest.approx(2)
    assert (judge(0, NOW, same, runs=50, at_least=10).spreads or 0) == pytest.approx(-20)
    assert judge(3, NOW, past(*[0.0] * 20), runs=50, at_least=10).spreads == 3, "no spread at all is one of 1"


def test_odd_runs_hide_no_odd_run_and_a_new_level_becomes_usual() -> None:
    noise = random.Random(7)
    calm = [noise.gauss(1000, 50) for _ in range(45)]
    assert (judge(100, NOW, past(*calm, *[1e6] * 5), runs=50, at_least=10).spreads or 0) < -6
    assert max(abs(judge(each, NOW, past(*calm), runs=50, at_least=10).spreads or 0) for each in calm) < 6
    assert abs(judge(1e6, NOW, past(*[1e6] * 30, *calm), runs=50, at_least=10).spreads or 0) < 6


def test_only_the_newest_runs_count() -> None:
    found = judge(5, NOW, past(*[5.0] * 10, *[900.0] * 90), runs=10, at_least=10)
    assert (found.median, found.runs) == (5, 10)


def test_a_quiet_hour_is_judged_by_that_hour_of_other_days() -> None:
    """Each hour 1,000 rows, and 10 at noon: 10 at noon is right, 10 at another hour is not."""
    days = [
        Past(NOW - timedelta(hours=back), 10.0 if (NOW - timedelta(hours=back)).hour == 12 else 1000.0)
        for back in range(1, 24 * 12)
    ]
    noon = judge(10, NOW, days, runs=50, at_least=10)
    assert (noon.spreads, noon.hourly, noon.runs) == (0, True, 11)
    later = judge(10, NOW + timedelta(hours=1), days, runs=50, at_least=10)
    assert later.hourly and (later.spreads or 0) < -6
    few = judge(10, NOW, days[: 24 * 5], runs=50, at_least=10)
    assert not few.hourly and (few.spreads or 0) < -6, "five noons are too few"
