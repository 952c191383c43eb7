from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.spec.model.stream import Limits
from lakeward.spec.model.types import Duration
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import HealthInput
from lakeward.supervision.decide.stuck import stuck


@pytest.fixture
def sight(make):
    """A stream that has landed nothing for ten minutes while records wait; its limit is five."""

    def build(name="flights", **values):
        base = {
            "stream": make.stream(name), "limits": Limits(), "driver": make.driver(launched_s=3600.0, state="stuck"),
            "process": Life.ALIVE, "lease": make.lease("stream", name), "failure": None, "now": make.now,
            "observation": make.seen(name, commit_age_s=600.0, lag_records=1234),
        }  # fmt: skip
        return HealthInput(**{**base, **values})

    return build


def test_a_driver_that_lands_nothing_while_records_wait_is_stuck(sight) -> None:
    assert stuck([sight()]) == "no batch of flights for 10 min while 1,234 records wait (hung batch)"


def test_below_the_limit_it_is_only_slow(sight, make) -> None:
    assert stuck([sight(observation=make.seen(commit_age_s=299.0, lag_records=9))]) is None
    assert stuck([sight(observation=make.seen(commit_age_s=301.0, lag_records=9))]) is not None


def test_a_driver_whose_loop_turns_helps_itself(sight, make) -> None:
    assert stuck([sight(driver=make.driver(launched_s=3600.0, state="running"))]) is None


def test_a_query_that_said_it_was_idle_may_be_stuck_in_its_next_batch(sight, make) -> None:
    hung = {"query_state": "idle", "commit_age_s": 3600.0, "lag_records": 9}
    assert stuck([sight(observation=make.seen(**hung, lag_s=600.0))]) is not None
    assert stuck([sight(observation=make.seen(**hung, lag_s=3.0))]) is None, "they came just now"


def test_one_that_lands_seldom_is_not_stuck_in_between(sight, make) -> None:
    assert stuck([sight(every=Duration("10m"))]) is None


def test_one_neighbour_that_lands_keeps_it_alive(sight, make) -> None:
    assert stuck([sight(), sight("alerts", observation=make.seen("alerts", commit_age_s=4.0))]) is None


@pytest.mark.parametrize(
    "healthy",
    [
        {"observation": {"commit_age_s": 600.0, "lag_records": 0}},  # nothing waits
        {"observation": {"commit_age_s": 600.0, "lag_records": None}},  # nobody knows whether anything waits
        {"observation": {"commit_age_s": 600.0, "lag_records": 9, "query_state": "failed"}},  # its pause decides
        {"down": "Kafka does not answer"},
        {"process": Life.UNKNOWN},
        {"process": Life.GONE},
        {"driver": {"launched_s": 100.0, "state": "stuck"}},
        {"stream": {"desired": "stopped"}},
        {"stream": {"blocked": {"reason": "gap"}}},
        {"failure": {"age_s": 100.0}},  # it was just started again
    ],
)
def test_what_has_another_explanation_is_left_alone(sight, make, healthy) -> None:
    kinds = {"observation": make.seen, "driver": make.driver, "stream": make.stream, "failure": make.failure}
    values = {name: kinds[name](**value) if name in kinds else value for name, value in healthy.items()}
    assert stuck([sight(**values)]) is None


def test_a_pause_is_no_hang(sight, make) -> None:
    assert stuck([sight(stream=make.stream(run_after=make.now + timedelta(seconds=5)))]) is None
