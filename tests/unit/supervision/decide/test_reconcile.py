from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.reconcile import (
    Adopt,
    FinalizeLaunch,
    Kill,
    Launch,
    Nothing,
    ObservedState,
    Unstick,
    plan,
)


@pytest.fixture
def decide(make):
    """The decisions about driver `nyc`, by type."""

    def run(**values):
        base = {
            "streams": [make.stream()], "drivers": {"nyc": make.driver()}, "leases": {"nyc": make.lease()},
            "jobs": [make.job()], "failures": {}, "start_requests": {}, "now": make.now,
        }  # fmt: skip
        return list(plan(ObservedState(**{**base, **values})).decisions)

    return run


EXITED = {"state": "exited", "exit_code": None}


def test_what_runs_is_left_alone(decide) -> None:
    assert [type(item) for item in decide()] == [Nothing]


def test_what_never_ran_is_launched_with_the_streams_that_want_it(decide, make) -> None:
    streams = [make.stream("a"), make.stream("b"), make.stream("c", desired="stopped")]
    (launch,) = decide(streams=streams, drivers={}, leases={}, jobs=[])
    assert isinstance(launch, Launch)
    assert (launch.previous, launch.streams) == (None, ("a", "b"))


@pytest.mark.parametrize("values", [{"desired": "stopped"}, {"blocked": {"reason": "gap"}}, {"removed_at": 1}])
def test_what_is_not_wanted_is_not_launched(decide, make, values) -> None:
    assert isinstance(decide(streams=[make.stream(**values)], drivers={}, leases={}, jobs=[])[0], Nothing)


def test_a_process_nobody_recorded_is_adopted(decide, make) -> None:
    (adopt,) = decide(drivers={"nyc": make.driver(handle=None, state="launching", launched_s=5.0)})
    assert isinstance(adopt, Adopt)


def test_a_dead_process_is_buried_although_its_lease_lives(decide, make) -> None:
    (bury,) = decide(jobs=[make.job(life=Life.GONE)])
    assert isinstance(bury, FinalizeLaunch)
    assert (bury.token, bury.desired) == ("t1", True)


def test_after_the_burial_the_pause_is_waited_out(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "jobs": [make.job(life=Life.GONE)]}
    (wait,) = decide(**gone, failures={"nyc": make.failure(wait_s=7.0)})
    assert isinstance(wait, Nothing)
    assert wait.after_s == pytest.approx(7.0)
    (launch,) = decide(**gone, failures={"nyc": make.failure(wait_s=-1.0)})
    assert isinstance(launch, Launch)
    assert launch.previous == "t1"


def test_a_person_cuts_the_pause_short(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "jobs": [], "failures": {"nyc": make.failure()}}
    assert isinstance(decide(**gone)[0], Nothing)
    assert isinstance(decide(**gone, start_requests={"flights": make.now - timedelta(seconds=1)})[0], Launch)
    assert isinstance(decide(**gone, start_requests={"flights": make.now - timedelta(hours=1)})[0], Nothing)


def test_a_failure_without_a_next_attempt_stays_down(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "jobs": []}
    assert isinstance(decide(**gone, failures={"nyc": make.failure(wait_s=None)})[0], Nothing)


def test_an_end_the_driver_reported_itself_is_counted_before_the_next_launch(decide, make) -> None:
    ended = make.driver(state="exited", exit_code=1)
    assert isinstance(decide(drivers={"nyc": ended}, leases={}, jobs=[make.job(life=Life.GONE)])[0], FinalizeLaunch)
    asked = make.driver(state="exited", exit_code=0)
    assert isinstance(decide(drivers={"nyc": asked}, leases={}, jobs=[make.job(life=Life.GONE)])[0], Launch)


def test_an_end_that_nobody_wanted_to_go_on_from_is_settled_then_and_never_held_against_a_later_start(
    decide, make
) -> None:
    gone = {"leases": {}, "jobs": [make.job(life=Life.GONE)]}
    stopped = [make.stream(desired="stopped")]
    for state, code in (("running", None), ("exited", 1)):
        (bury,) = decide(**gone, drivers={"nyc": make.driver(state=state, exit_code=code)}, streams=stopped)
        assert isinstance(bury, FinalizeLaunch)
        assert not bury.desired
    buried = {"nyc": make.driver(state="buried", exit_code=None)}
    assert isinstance(decide(**gone, drivers=buried, streams=stopped)[0], Nothing)
    assert isinstance(decide(**gone, drivers=buried)[0], Launch)


def test_a_launch_that_ended_is_over_whatever_its_host(decide, make) -> None:
    elsewhere = make.job(life=Life.UNKNOWN)
    ended = {"nyc": make.driver(state="exited", exit_code=0)}
    assert isinstance(decide(leases={}, jobs=[elsewhere], drivers=ended)[0], Launch)
    wrote = make.job(life=Life.UNKNOWN, exit={"exit_code": 0})
    assert isinstance(decide(leases={}, jobs=[wrote])[0], FinalizeLaunch)
    older = make.job("t0", life=Life.UNKNOWN)
    assert isinstance(decide(leases={}, jobs=[older, make.job(life=Life.GONE)], drivers=ended)[0], Launch)
    assert decide(jobs=[older, make.job()])[0].reason == "it runs"


def test_nobody_to_ask_restarts_nothing(decide, make) -> None:
    assert isinstance(decide(jobs=None, leases={}, drivers={"nyc": make.driver(**EXITED)})[0], Nothing)
    assert isinstance(decide(jobs=[make.job(life=Life.UNKNOWN)], leases={})[0], Nothing)


def test_a_live_lease_of_somebody_unseen_is_waited_for(decide, make) -> None:
    (wait,) = decide(jobs=[], leases={"nyc": make.lease(left_s=9.0)})
    assert isinstance(wait, Nothing)
    assert wait.after_s == pytest.approx(9.0)
    (wait,) = decide(jobs=[], drivers={"nyc": make.driver(state="exited", exit_code=0)})
    assert isinstance(wait, Nothing)


def test_a_fresh_intent_is_somebody_elses_launch(decide, make) -> None:
    row = make.driver(handle=None, state="launching", launched_s=3.0)
    assert isinstance(decide(drivers={"nyc": row}, leases={}, jobs=[])[0], Nothing)
    assert isinstance(decide(drivers={"nyc": replace(row, launched_s=31.0)}, leases={}, jobs=[])[0], FinalizeLaunch)


def test_an_older_launch_is_given_time_to_see_the_newer_one_and_then_killed(decide, make) -> None:
    found = [make.job("t0"), make.job("t1", life=Life.GONE)]
    assert isinstance(decide(jobs=found, drivers={"nyc": make.driver(launched_s=5.0)})[0], Nothing)
    (kill,) = decide(jobs=found, drivers={"nyc": make.driver(launched_s=60.0)})
    assert isinstance(kill, Kill)
    assert kill.job.token == "t0"


def test_what_a_dead_driver_left_behind_is_killed_first(decide, make) -> None:
    (kill,) = decide(jobs=[make.job(life=Life.REMNANT)])
    assert isinstance(kill, Kill)


def test_a_hung_process_is_killed_only_after_long_silence_on_a_healthy_registry(decide, make) -> None:
    silent = {"drivers": {"nyc": make.driver(age_s=400.0)}, "leases": {"nyc": make.lease(left_s=-385.0)}}
    assert isinstance(decide(**silent)[0], Kill)
    assert isinstance(decide(**silent, startup_grace="the registry was away")[0], Nothing)
    assert isinstance(
        decide(drivers={"nyc": make.driver(age_s=50.0)}, leases={"nyc": make.lease(left_s=-35.0)})[0], Nothing
    )


FROZEN: dict[str, tuple[dict[str, Any], bool]] = {
    # what is different -> whether it is replaced after 65 s of silence
    "it exists and is silent": ({}, True),
    "it is stopped": ({"stopped": True}, True),
    "it is stopped on a starved machine": ({"stopped": True, "starved": True}, True),
    "it may be starved like the whole machine": ({"starved": True}, False),
    "the registry was away": ({"stopped": True, "startup_grace": "the registry was away"}, False),
    "its lease is live": ({"stopped": True, "left_s": 3.0}, False),
    "it never sent a heartbeat: a cold start": ({"age_s": None, "launched_s": 65.0}, False),
    "its streams are not to run": ({"desired": "stopped", "stopped": True}, False),
    "nobody can ask for it": ({"life": Life.UNKNOWN}, False),
}


@pytest.mark.parametrize("row", FROZEN)
def test_a_driver_that_worked_and_falls_silent_is_replaced_within_two_minutes(decide, make, row) -> None:
    given, replaced = FROZEN[row]
    (decision,) = decide(
        streams=[make.stream(desired=given.get("desired", "running"))],
        drivers={"nyc": make.driver(age_s=given.get("age_s", 65.0), launched_s=given.get("launched_s", 600.0))},
        leases={"nyc": make.lease(left_s=given.get("left_s", -50.0))},
        jobs=[make.job(life=given.get("life", Life.ALIVE), stopped=given.get("stopped", False))],
        starved=given.get("starved", False),
        startup_grace=given.get("startup_grace"),
    )
    assert isinstance(decision, Unstick) is replaced
    if replaced:
        assert "sent no heartbeat for 65 s" in decision.reason
        assert ("SIGSTOP" in decision.reason) is given.get("stopped", False)


def test_a_starved_machine_waits_longer_and_not_for_ever(decide, make) -> None:
    silent = {"drivers": {"nyc": make.driver(age_s=400.0)}, "leases": {"nyc": make.lease(left_s=-385.0)}}
    assert isinstance(decide(**silent, starved=True)[0], Unstick)


def test_a_pass_returns_when_silence_becomes_proof(decide, make) -> None:
    (wait,) = decide(drivers={"nyc": make.driver(age_s=45.0)}, leases={"nyc": make.lease(left_s=-30.0)})
    assert (type(wait), wait.after_s) == (Nothing, pytest.approx(15.0))


def test_nothing_is_launched_in_the_calm_after_an_outage(decide) -> None:
    (wait,) = decide(drivers={}, leases={}, jobs=[], startup_grace="the registry answers again")
    assert isinstance(wait, Nothing)


def test_a_hold_freezes_restarts(decide, make) -> None:
    held = make.stream(hold_until=make.now + timedelta(hours=1))
    assert isinstance(decide(streams=[held], drivers={}, leases={}, jobs=[])[0], Nothing)
    over = make.stream(hold_until=make.now - timedelta(hours=1))
    assert isinstance(decide(streams=[over], drivers={}, leases={}, jobs=[])[0], Launch)


def test_a_process_that_never_took_its_lease_is_hung_too(decide, make) -> None:
    mute = {"leases": {}, "drivers": {"nyc": make.driver(heartbeat=None, age_s=None, launched_s=400.0)}}
    assert isinstance(decide(**mute)[0], Unstick)
    young = {"leases": {}, "drivers": {"nyc": make.driver(heartbeat=None, age_s=None, launched_s=100.0)}}
    assert isinstance(decide(**young)[0], Nothing)


def test_a_driver_that_is_stuck_is_ended_but_never_in_the_calm_after_an_outage(decide) -> None:
    (unstick,) = decide(stuck={"nyc": "no batch for 7 min (hung batch)"})
    assert isinstance(unstick, Unstick)
    assert isinstance(decide(stuck={"nyc": "no batch for 7 min"}, startup_grace="the registry was away")[0], Nothing)


@pytest.mark.parametrize(("down", "launches"), [({"flights": "Kafka is away"}, False), ({"other": "Kafka"}, True)])
def test_an_attempt_waits_for_the_dependency_and_not_for_the_clock(decide, make, down, launches) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "jobs": []}
    (next_one,) = decide(**gone, failures={"nyc": make.failure(wait_s=-1.0)}, down=down)
    assert isinstance(next_one, Launch) is launches
    if not launches:
        assert next_one.reason == "attempt 1 waits: Kafka is away"
        requested = {"flights": make.now}
        (asked,) = decide(**gone, failures={"nyc": make.failure(wait_s=-1.0)}, down=down, start_requests=requested)
        assert isinstance(asked, Launch), "a person may try"


def test_one_neighbour_that_does_not_need_it_lets_the_driver_start(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "jobs": []}
    both = [make.stream("flights"), make.stream("alerts")]
    failures = {"nyc": make.failure(wait_s=-1.0)}
    assert isinstance(decide(**gone, streams=both, failures=failures, down={"flights": "Kafka"})[0], Launch)


def test_thrash_stops_restarts_and_neither_first_starts_nor_a_person(decide, make) -> None:
    gone = {"drivers": {"nyc": make.driver(**EXITED)}, "leases": {}, "jobs": [], "thrash": "too many fail"}
    due = {"nyc": make.failure(wait_s=-1.0)}
    (wait,) = decide(**gone, failures=due)
    assert (type(wait), wait.reason) == (Nothing, "too many fail")
    assert isinstance(decide(**gone, failures=due, start_requests={"flights": make.now})[0], Launch)
    assert isinstance(decide(drivers={}, leases={}, jobs=[], thrash="too many fail")[0], Launch)


def test_a_person_starts_what_is_held(decide, make) -> None:
    held = [make.stream(hold_until=make.now + timedelta(hours=1))]
    ended = make.driver(state="exited", exit_code=0)
    gone = {"drivers": {"nyc": ended}, "leases": {}, "jobs": [], "streams": held}
    (wait,) = decide(**gone)
    assert (type(wait), wait.after_s) == (Nothing, 3600.0)
    assert "held for 60 min more" in wait.reason
    assert isinstance(decide(**gone, start_requests={"flights": make.now - timedelta(seconds=5)})[0], Launch)
    assert isinstance(decide(**gone, start_requests={"flights": make.now - timedelta(hours=5)})[0], Nothing)


ADOPTION: dict[str, tuple[dict[str, Any], type[Any], str]] = {
    # lease, backend -> decision: the table of the adoption after Airflow was away
    "live lease, running: it is left alone": ({}, Nothing, "it runs"),
    "live lease, nobody recorded the process: adopted": ({"handle": None}, Adopt, ""),
    "live lease, the backend cannot be asked: nothing": ({"jobs": None}, Nothing, "could not be asked"),
    "live lease, the process cannot be asked: nothing": ({"life": Life.UNKNOWN}, Nothing, "could not be asked"),
    "live lease, the backend knows no process: waits for it to lapse": ({"jobs": []}, Nothing, "its lease is live"),
    "lapsed lease, running: not dead until proven": ({"left_s": -100.0}, Nothing, "it runs"),
    "lapsed lease, silent for long, running: ended": ({"left_s": -400.0, "age_s": 400.0}, Unstick, "sent no heartbeat"),
    "lapsed lease, running, lands nothing: ended": ({"left_s": -100.0, "stuck": True}, Unstick, "hung batch"),
    "lapsed lease, gone: finalized, then started": ({"left_s": -100.0, "life": Life.GONE}, FinalizeLaunch, "gone"),
    "no lease, an unknown process runs: it ends by itself": ({"row": None}, Nothing, "does not know"),
    "two run: the older one has its time, nothing is started": ({"older": True, "launched_s": 5.0}, Nothing, "older"),
    "two run for too long: the older one is ended": ({"older": True}, Kill, "older launch still runs"),
}  # fmt: skip


@pytest.mark.parametrize("row", ADOPTION)
def test_the_adoption_table(decide, make, row) -> None:
    given, expected, words = ADOPTION[row]
    driver = make.driver(**{name: given[name] for name in ("handle", "age_s", "launched_s") if name in given})
    jobs = given.get("jobs", [make.job(life=given.get("life", Life.ALIVE))])
    if given.get("older"):
        jobs = [make.job("t0"), *jobs]
    (decision,) = decide(
        drivers={"nyc": driver} if given.get("row", driver) else {},
        leases={"nyc": make.lease(left_s=given.get("left_s", 12.0))} if given.get("row", driver) else {},
        jobs=given.get("jobs", jobs),
        stuck={"nyc": "no batch for 7 min (hung batch)"} if given.get("stuck") else {},
    )
    assert type(decision) is expected
    assert words in decision.reason


WAITS = "the Spark cluster has no room for its driver; its workers have free: node 0 cores and 300 MB"
LOST = "the master spark://h:7077 does not know its driver any more"


def test_a_driver_that_its_cluster_has_no_room_for_waits_and_is_then_withdrawn_with_the_reason(decide, make) -> None:
    job = make.job(waits=WAITS)

    def after(launched_s: float):
        driver = make.driver(launched_s=launched_s, heartbeat=None, age_s=None)
        [decision] = decide(drivers={"nyc": driver}, jobs=[job], leases={})
        return decision

    early, late = after(60.0), after(200.0)
    assert (type(early), early.reason, early.after_s) == (Nothing, WAITS, 120.0)
    assert (type(late), late.reason) == (Unstick, f"{WAITS} (waited 3 min)")


@pytest.mark.parametrize(
    ("silent_s", "lease_s", "grace", "given_up"),
    [
        (90.0, -30.0, None, True),
        (90.0, 5.0, None, False),  # its lease is live
        (30.0, -30.0, None, False),  # it was heard of lately
        (90.0, -30.0, "the registry is back since 3 s", False),
    ],
)
def test_a_driver_that_its_cluster_lost_is_given_up_when_lease_and_heartbeat_agree(
    decide, make, silent_s, lease_s, grace, given_up
) -> None:
    decisions = decide(
        drivers={"nyc": make.driver(age_s=silent_s)}, leases={"nyc": make.lease(left_s=lease_s)},
        jobs=[make.job(life=Life.UNKNOWN, lost=LOST)], startup_grace=grace,
    )  # fmt: skip
    assert [type(item) for item in decisions] == [FinalizeLaunch if given_up else Nothing]
    if given_up:
        assert decisions[0].reason.startswith(f"{LOST}, and it sent no heartbeat for ")


def test_a_cluster_that_cannot_be_asked_ends_no_driver(decide, make) -> None:
    decisions = decide(
        drivers={"nyc": make.driver(age_s=9999.0)}, leases={"nyc": make.lease(left_s=-9999.0)},
        jobs=[make.job(life=Life.UNKNOWN)],
    )  # fmt: skip
    assert [type(item) for item in decisions] == [Nothing]
