from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.backends.base import Life
from lakeward.streams.reconcile import Adopt, Bury, Kill, Launch, Nothing, World, plan


@pytest.fixture
def decide(make):
    """The decisions about driver `nyc`, by type."""

    def run(**values):
        base = {
            "streams": [make.stream()], "drivers": {"nyc": make.driver()}, "leases": {"nyc": make.lease()},
            "found": [make.job()], "failures": {}, "asked": {}, "now": make.now,
        }  # fmt: skip
        return list(plan(World(**{**base, **values})).decisions)

    return run


EXITED = {"state": "exited", "exit_code": None}


def test_what_runs_is_left_alone(decide) -> None:
    assert [type(item) for item in decide()] == [Nothing]


def test_what_never_ran_is_launched_with_the_streams_that_want_it(decide, make) -> None:
    streams = [make.stream("a"), make.stream("b"), make.stream("c", desired="stopped")]
    (launch,) = decide(streams=streams, drivers={}, leases={}, found=[])
    assert isinstance(launch, Launch)
    assert (launch.previous, launch.streams) == (None, ("a", "b"))


@pytest.mark.parametrize("values", [{"desired": "stopped"}, {"blocked": {"reason": "gap"}}, {"removed_at": 1}])
def test_what_is_not_wanted_is_not_launched(decide, make, values) -> None:
    assert isinstance(decide(streams=[make.stream(**values)], drivers={}, leases={}, found=[])[0], Nothing)


def test_a_process_nobody_recorded_is_adopted(decide, make) -> None:
    (adopt,) = decide(drivers={"nyc": make.driver(handle=None, state="launching", launched_s=5.0)})
    assert isinstance(adopt, Adopt)


def test_a_dead_process_is_buried_although_its_lease_lives(decide, make) -> None:
    (bury,) = decide(found=[make.job(life=Life.GONE)])
    assert isinstance(bury, Bury)
    assert (bury.token, bury.wanted) == ("t1", True)


def test_after_the_burial_the_pause_is_waited_out(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "found": [make.job(life=Life.GONE)]}
    (wait,) = decide(**gone, failures={"nyc": make.failure(wait_s=7.0)})
    assert isinstance(wait, Nothing)
    assert wait.after_s == pytest.approx(7.0)
    (launch,) = decide(**gone, failures={"nyc": make.failure(wait_s=-1.0)})
    assert isinstance(launch, Launch)
    assert launch.previous == "t1"


def test_a_person_cuts_the_pause_short(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "found": [], "failures": {"nyc": make.failure()}}
    assert isinstance(decide(**gone)[0], Nothing)
    assert isinstance(decide(**gone, asked={"flights": make.now - timedelta(seconds=1)})[0], Launch)
    assert isinstance(decide(**gone, asked={"flights": make.now - timedelta(hours=1)})[0], Nothing)


def test_a_failure_without_a_next_attempt_stays_down(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "found": []}
    assert isinstance(decide(**gone, failures={"nyc": make.failure(wait_s=None)})[0], Nothing)


def test_an_end_the_driver_reported_itself_is_counted_before_the_next_launch(decide, make) -> None:
    ended = make.driver(state="exited", exit_code=1)
    assert isinstance(decide(drivers={"nyc": ended}, leases={}, found=[make.job(life=Life.GONE)])[0], Bury)
    asked = make.driver(state="exited", exit_code=0)
    assert isinstance(decide(drivers={"nyc": asked}, leases={}, found=[make.job(life=Life.GONE)])[0], Launch)


def test_nobody_to_ask_restarts_nothing(decide, make) -> None:
    assert isinstance(decide(found=None, leases={}, drivers={"nyc": make.driver(**EXITED)})[0], Nothing)
    assert isinstance(decide(found=[make.job(life=Life.UNKNOWN)], leases={})[0], Nothing)


def test_a_live_lease_of_somebody_unseen_is_waited_for(decide, make) -> None:
    (wait,) = decide(found=[], leases={"nyc": make.lease(left_s=9.0)})
    assert isinstance(wait, Nothing)
    assert wait.after_s == pytest.approx(9.0)
    (wait,) = decide(found=[], drivers={"nyc": make.driver(state="exited", exit_code=0)})
    assert isinstance(wait, Nothing)


def test_a_fresh_intent_is_somebody_elses_launch(decide, make) -> None:
    row = make.driver(handle=None, state="launching", launched_s=3.0)
    assert isinstance(decide(drivers={"nyc": row}, leases={}, found=[])[0], Nothing)
    assert isinstance(decide(drivers={"nyc": replace(row, launched_s=31.0)}, leases={}, found=[])[0], Bury)


def test_an_older_launch_is_given_time_to_see_the_newer_one_and_then_killed(decide, make) -> None:
    found = [make.job("t0"), make.job("t1", life=Life.GONE)]
    assert isinstance(decide(found=found, drivers={"nyc": make.driver(launched_s=5.0)})[0], Nothing)
    (kill,) = decide(found=found, drivers={"nyc": make.driver(launched_s=60.0)})
    assert isinstance(kill, Kill)
    assert kill.job.token == "t0"


def test_what_a_dead_driver_left_behind_is_killed_first(decide, make) -> None:
    (kill,) = decide(found=[make.job(life=Life.REMNANT)])
    assert isinstance(kill, Kill)


def test_a_hung_process_is_killed_only_after_long_silence_on_a_healthy_registry(decide, make) -> None:
    silent = {"drivers": {"nyc": make.driver(age_s=400.0)}, "leases": {"nyc": make.lease(left_s=-385.0)}}
    assert isinstance(decide(**silent)[0], Kill)
    assert isinstance(decide(**silent, calm="the registry was away")[0], Nothing)
    assert isinstance(
        decide(drivers={"nyc": make.driver(age_s=100.0)}, leases={"nyc": make.lease(left_s=-85.0)})[0], Nothing
    )


def test_nothing_is_launched_in_the_calm_after_an_outage(decide) -> None:
    (wait,) = decide(drivers={}, leases={}, found=[], calm="the registry answers again")
    assert isinstance(wait, Nothing)


def test_a_hold_freezes_restarts(decide, make) -> None:
    held = make.stream(hold_until=make.now + timedelta(hours=1))
    assert isinstance(decide(streams=[held], drivers={}, leases={}, found=[])[0], Nothing)
    over = make.stream(hold_until=make.now - timedelta(hours=1))
    assert isinstance(decide(streams=[over], drivers={}, leases={}, found=[])[0], Launch)
