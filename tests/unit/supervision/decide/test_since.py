"""Since when: what happened decides, and not when a pass noticed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lakeward.spec.model.stream import Limits
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import HealthInput, State, Verdict
from lakeward.supervision.decide.since import since


def ago(make, seconds: float):
    return make.now - timedelta(seconds=seconds)


def told(make, state: State, **more: Any) -> float:
    """Seconds since then."""
    base: dict[str, Any] = {
        "stream": make.stream(), "limits": Limits(), "driver": make.driver(), "process": Life.ALIVE,
        "lease": make.lease("stream", "flights"), "observation": make.seen(), "failure": None, "now": make.now,
    }  # fmt: skip
    return (make.now - since(HealthInput(**{**base, **more}), Verdict(state, "w"))).total_seconds()


def test_a_driver_that_was_killed_is_down_since_its_last_heartbeat(make) -> None:
    dead = make.driver(heartbeat=ago(make, 55.0))
    assert told(make, State.RESTARTING, driver=dead, process=Life.GONE) == 55.0
    noticed = make.stream(state="restarting", since=ago(make, 3.0))
    assert told(make, State.RESTARTING, driver=dead, process=Life.GONE, stream=noticed) == 55.0


def test_trouble_that_goes_on_over_several_launches_began_with_the_first(make) -> None:
    long = make.stream(state="restarting", since=ago(make, 900.0))
    assert told(make, State.RESTARTING, stream=long, driver=make.driver(heartbeat=ago(make, 1.0))) == 900.0


def test_a_query_that_failed_is_down_since_its_driver_reported_it(make) -> None:
    failed = make.seen(query_state="failed", at=ago(make, 12.0))
    assert told(make, State.RESTARTING, observation=failed) == 12.0


def test_a_stream_that_hangs_does_so_since_its_last_commit_or_its_launch(make) -> None:
    assert told(make, State.STALLED, observation=make.seen(commit_age_s=200.0, lag_records=5)) == 200.0
    assert told(make, State.STALLED, observation=None, driver=make.driver(launched_s=150.0)) == 150.0


def test_a_stream_that_lands_and_was_not_recorded_yet_is_healthy_since_its_commit(make) -> None:
    assert told(make, State.HEALTHY, stream=make.stream(state="starting", since=ago(make, 90.0))) == 4.0
    down = make.stream(state="restarting", since=ago(make, 3.0))
    assert told(make, State.HEALTHY, stream=down) == 3.0, "its last commit was before it failed"
    assert told(make, State.HEALTHY) == 3600.0, "a state that is recorded has lasted as long as that"


def test_a_lag_is_above_its_limit_since_it_crossed_it(make) -> None:
    limits = Limits()
    behind = make.seen(lag_records=9, lag_s=limits.freshness.seconds + 40.0)
    assert told(make, State.LAGGING, observation=behind) == 40.0


def test_a_block_has_its_own_moment_and_nothing_known_is_now(make) -> None:
    blocked = make.stream(state="restarting", blocked={"at": ago(make, 77.0).isoformat()})
    assert told(make, State.BLOCKED, stream=blocked) == 77.0
    assert told(make, State.STOPPED, stream=make.stream(state="healthy")) == 0.0


def test_a_start_is_as_old_as_its_launch_or_its_request(make) -> None:
    assert told(make, State.STARTING, driver=make.driver(launched_s=30.0)) == 30.0
    deployed = make.stream(state="stopped", since=ago(make, 400.0), updated_at=ago(make, 90.0))
    assert told(make, State.STARTING, stream=deployed, driver=None) == 90.0, "no pass has recorded it"


def test_a_host_that_cannot_be_asked_was_last_seen_at_its_heartbeat(make) -> None:
    silent = make.driver(heartbeat=ago(make, 140.0))
    assert told(make, State.UNKNOWN, driver=silent, process=Life.UNKNOWN) == 140.0
