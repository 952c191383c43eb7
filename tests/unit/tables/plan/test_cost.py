"""Expected seconds: from the table's own runs, from the prior until there are any."""

from __future__ import annotations

import pytest

from lakeward.tables.plan.cost import PRIORS, RUNS, learn

MB = 1 << 20


def test_without_a_run_the_prior_holds():
    assert learn("compact", []) == PRIORS["compact"]
    assert learn("compact", [(0, 5.0), (10 * MB, 0.0)]) == PRIORS["compact"], "they tell nothing"
    assert PRIORS["compact"].seconds(80 * MB) == pytest.approx(12.0)


def test_runs_move_the_estimate_towards_what_was_measured():
    one = learn("compact", [(1024 * MB, 18.0)])  # 64 MB/s beyond the start
    many = learn("compact", [(1024 * MB, 18.0)] * 15)
    assert 8 * MB < one.per_second < many.per_second < 64 * MB
    assert many.seconds(1024 * MB) == pytest.approx(18.0, rel=0.2)
    assert many.runs == 15


def test_a_tiny_slow_run_does_not_overturn_large_ones():
    large = learn("compact", [(4096 * MB, 66.0)] * 3)
    with_tiny = learn("compact", [(MB, 30.0), *[(4096 * MB, 66.0)] * 3])
    assert with_tiny.per_second > 0.8 * large.per_second


def test_only_the_newest_runs_count():
    newest = [(1024 * MB, 18.0)] * RUNS
    assert learn("compact", [*newest, (1024 * MB, 9000.0)]) == learn("compact", newest)


def test_amount_is_seconds_turned_round():
    pace = PRIORS["compact"]
    assert pace.amount(pace.seconds(300 * MB)) == pytest.approx(300 * MB)
    assert pace.amount(1.0) == 0
