"""One comparison with `mostly` for Lakeward's own checks and those of Great Expectations."""

from __future__ import annotations

import pytest

from lakeward.quality.engine.custom.base import enough


@pytest.mark.parametrize(
    ("failing", "judged", "mostly"), [(1, 10, 0.9), (3, 10, 0.7), (0, 0, 1), (0, 5, 1), (7, 100, 0.93)]
)
def test_exactly_as_many_as_allowed_pass(failing: int, judged: int, mostly: float) -> None:
    assert enough(failing, judged, mostly)


@pytest.mark.parametrize("tenths", range(1, 11))
@pytest.mark.parametrize("judged", [10, 20, 70, 1000, 3_000_000])
def test_the_verdict_is_that_of_great_expectations(tenths: int, judged: int) -> None:
    from great_expectations.expectations.expectation import _mostly_success

    mostly = tenths / 10
    for failing in (judged // 10 * each for each in range(11)):
        assert enough(failing, judged, mostly) == _mostly_success(judged, failing, mostly)


def test_one_more_fails() -> None:
    assert not enough(2, 10, 0.9) and not enough(1, 5, 1)
