from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.backends.base import Life
from lakeward.spec.stream import Limits
from lakeward.spec.types import Duration
from lakeward.streams.health import Sight, State, verdict


@pytest.fixture
def judge(make):
    def run(**values):
        base = {
            "stream": make.stream(), "limits": Limits(), "driver": make.driver(), "process": Life.ALIVE,
            "lease": make.lease("stream", "flights"), "observation": make.seen(), "failure": None, "now": make.now,
        }  # fmt: skip
        return verdict(Sight(**{**base, **values}))

    return run


def test_landing_is_healthy_and_says_when_and_what_waits(judge, make) -> None:
    found = judge(observation=make.seen(lag_records=120, lag_s=3.0))
    assert found.state is State.HEALTHY
    assert found.why == "batch 812 landed 4 s ago; 120 records wait"


def test_idle_is_healthy_however_old_the_last_batch_is(judge, make) -> None:
    found = judge(
        observation=make.seen(commit_age_s=86400.0, lag_records=0), driver=make.driver(launched_s=10 * 86400.0)
    )
    assert found.state is State.HEALTHY


def test_records_that_wait_for_longer_than_the_limit_are_a_stall(judge, make) -> None:
    found = judge(observation=make.seen(commit_age_s=360.0, lag_records=1234))
    assert found.state is State.STALLED
    assert found.why == "no batch for 6 min while 1,234 records wait"


def test_a_driver_that_just_came_up_is_not_stalled_by_the_outage_before(judge, make) -> None:
    found = judge(
        observation=make.seen(commit_age_s=3600.0, lag_records=9, age_s=3600.0), driver=make.driver(launched_s=20.0)
    )
    assert found.state is State.STARTING


def test_starting_becomes_stalled(judge, make) -> None:
    found = judge(
        observation=make.seen(commit_age_s=3600.0, lag_records=9, age_s=1.0), driver=make.driver(launched_s=400.0)
    )
    assert found.state is State.STALLED
    assert "7 min" in found.why
    assert "9 records wait" in found.why


@pytest.mark.parametrize(
    ("values", "limits", "words"),
    [
        ({"lag_records": 5000}, Limits(lag_records=1000), "5,000 records wait, more than the limit of 1,000"),
        ({"lag_records": 5, "lag_s": 400.0}, Limits(freshness=Duration("2m")), "7 min behind its source"),
    ],
)
def test_behind_is_lagging(judge, make, values, limits, words) -> None:
    found = judge(observation=make.seen(**values), limits=limits)
    assert found.state is State.LAGGING
    assert words in found.why


def test_what_waits_for_a_person_says_why(judge, make) -> None:
    found = judge(stream=make.stream(blocked={"reason": "gap", "what": "offsets 5 to 9 of flights-0 are gone"}))
    assert (found.state, found.why) == (State.BLOCKED, "offsets 5 to 9 of flights-0 are gone")


def test_stopping_lasts_until_the_lease_is_given_back(judge, make) -> None:
    stream = make.stream(desired="stopped")
    assert judge(stream=stream).state is State.STOPPING
    assert judge(stream=stream, lease=make.lease("stream", "flights", left_s=-60)).state is State.STOPPING
    assert judge(stream=stream, lease=None).state is State.STOPPED
    assert judge(stream=stream, process=Life.GONE).state is State.STOPPED


def test_a_dead_driver_is_restarting_with_the_next_attempt(judge, make) -> None:
    found = judge(process=Life.GONE, failure=make.failure(wait_s=7.0))
    assert found.state is State.RESTARTING
    assert found.why == "Driver nyc was killed by SIGKILL; attempt 1 in 7 s"


def test_a_failed_stream_stays_restarting_until_a_batch_has_landed(judge, make) -> None:
    failed = make.failure(age_s=30.0)
    stream, driver = make.stream(state="restarting", since=make.now - timedelta(seconds=30)), make.driver(launched_s=20)
    before = judge(stream=stream, driver=driver, failure=failed, observation=make.seen(commit_age_s=60.0, age_s=60.0))
    after = judge(stream=stream, driver=driver, failure=failed, observation=make.seen(commit_age_s=2.0))
    assert (before.state, after.state) == (State.RESTARTING, State.HEALTHY)
    assert "no batch yet" in before.why


def test_a_start_by_a_person_after_a_failure_is_a_start(judge, make) -> None:
    found = judge(
        stream=make.stream(state="starting", since=make.now - timedelta(seconds=10)),
        driver=make.driver(launched_s=8),
        failure=make.failure(age_s=3600.0),
        observation=None,
    )
    assert found.state is State.STARTING


def test_a_failed_query_says_when_it_is_tried_again(judge, make) -> None:
    found = judge(
        stream=make.stream(run_after=make.now + timedelta(seconds=40)),
        observation=make.seen(query_state="failed", error={"error": "Connection refused\n  at Kafka"}),
    )
    assert (found.state, found.why) == (State.RESTARTING, "Connection refused; next attempt in 40 s")


def test_nobody_to_ask_is_unknown_not_dead(judge, make) -> None:
    found = judge(process=Life.UNKNOWN, lease=None, driver=make.driver(age_s=90.0))
    assert found.state is State.UNKNOWN
    assert "could not be asked" in found.why


def test_a_driver_cut_off_from_the_backend_but_alive_in_the_registry_is_what_it_says(judge, make) -> None:
    assert judge(process=Life.UNKNOWN).state is State.HEALTHY


def test_a_process_that_says_nothing_is_stalled(judge, make) -> None:
    found = judge(lease=make.lease("stream", "flights", left_s=-90), driver=make.driver(age_s=95.0))
    assert found.state is State.STALLED
    assert "has said nothing for 95 s" in found.why


def test_never_launched_is_starting(judge, make) -> None:
    assert judge(driver=None, process=Life.GONE, lease=None, observation=None).state is State.STARTING
