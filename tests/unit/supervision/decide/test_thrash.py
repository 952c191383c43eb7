from __future__ import annotations

import pytest

from lakeward.platform.failures import Cause
from lakeward.supervision.decide.thrash import Fall, judge

ALONE = {f"d{n}": [f"s{n}"] for n in range(10)}


def falls(number: int, kind: str = "infra") -> list[Fall]:
    return [Fall(f"d{n}", None, kind) for n in range(number)]


def test_more_than_three_in_ten_at_once_is_thrash() -> None:
    assert judge(falls(3), ALONE, ()) is None
    assert judge(falls(4), ALONE, ()) == "4 of 10 streams failed within 60 s (s0, s1, s2 and s3)"


def test_below_five_streams_there_is_no_at_once() -> None:
    assert judge(falls(4), {f"d{n}": [f"s{n}"] for n in range(4)}, ()) is None


def test_one_shared_driver_that_dies_is_one_failure_however_many_it_hosts() -> None:
    assert judge([Fall("nyc", None, "infra")] * 2, {"nyc": [f"s{n}" for n in range(20)]}, ()) is None


def test_queries_that_fail_inside_one_driver_count_one_by_one() -> None:
    hosted = {"nyc": [f"s{n}" for n in range(6)]}
    assert judge([Fall("nyc", f"s{n}", "infra") for n in range(3)], hosted, ()) is not None


@pytest.mark.parametrize("kind", ["dependency", "fenced"])
def test_what_is_explained_is_no_riddle(kind: str) -> None:
    assert judge(falls(10, kind), ALONE, ()) is None
    assert judge(falls(10), ALONE, [f"s{n}" for n in range(10)]) is None


def test_a_machine_that_was_started_again_is_no_riddle() -> None:
    assert judge([Fall(f"d{n}", None, "infra", Cause.REBOOT) for n in range(10)], ALONE, ()) is None


def test_streams_that_are_not_to_run_do_not_count() -> None:
    assert judge(falls(4), {**ALONE, "d0": [], "d1": []}, ()) is None
