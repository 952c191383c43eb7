from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.registry.backpressure import Level, TableBackpressure
from lakeward.spec.model.stream import Limits
from lakeward.spec.model.types import Duration
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import HealthInput, State, verdict


@pytest.fixture
def judge(make):
    def run(**values):
        base = {
            "stream": make.stream(), "limits": Limits(), "driver": make.driver(), "process": Life.ALIVE,
            "lease": make.lease("stream", "flights"), "observation": make.seen(), "failure": None, "now": make.now,
        }  # fmt: skip
        return verdict(HealthInput(**{**base, **values}))

    return run


def test_landing_is_healthy_and_says_when_and_what_waits(judge, make) -> None:
    found = judge(observation=make.seen(lag_records=120, lag_s=3.0))
    assert found.state is State.HEALTHY
    assert found.why == "batch 812 landed 4 s ago; 120 records wait"


def test_a_dependency_that_is_away_is_named_before_records_wait_for_long(judge, make) -> None:
    found = judge(observation=make.seen(lag_records=120, lag_s=3.0), down="Kafka (a) does not answer")
    assert found.state is State.HEALTHY
    assert found.why == "batch 812 landed 4 s ago; 120 records wait; Kafka (a) does not answer"


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
        (
            {"lag_records": None, "lag_s": None, "at_least": {"records": 5000, "seconds": None}},
            Limits(lag_records=1000),
            "at least 5,000 records wait, more than the limit of 1,000",
        ),
        (
            {"lag_records": None, "lag_s": None, "at_least": {"records": 5, "seconds": 400.0}},
            Limits(freshness=Duration("2m")),
            "7 min behind its source, the limit is 2m; at least 5 records wait",
        ),
    ],
)
def test_behind_is_lagging(judge, make, values, limits, words) -> None:
    found = judge(observation=make.seen(**values), limits=limits)
    assert found.state is State.LAGGING
    assert words in found.why


def test_a_source_that_was_measured_says_nothing_of_one_that_was_not(judge, make) -> None:
    part = {"lag_records": None, "lag_s": None, "at_least": {"records": 0, "seconds": 0.0}}
    assert judge(observation=make.seen(**part)).why.endswith("records may wait (their number is not known)")
    idle = make.seen(**part, query_state="idle", commit_age_s=3600.0)
    assert judge(observation=idle).why == "it runs and nothing waits at the source", "its query says so"
    waits = part | {"at_least": {"records": 3, "seconds": None}}
    stuck = judge(observation=make.seen(**waits, query_state="idle", commit_age_s=3600.0))
    assert stuck.state is State.STALLED
    assert "at least 3 records wait" in stuck.why


@pytest.mark.parametrize(
    ("level", "state", "words"),
    [
        (
            Level.HOLD,
            State.LAGGING,
            "no batch for 6 min while 9 records wait; it is paused until the next rewrite of its table",
        ),
        (
            Level.RELEASED,
            State.LAGGING,
            "while 9 records wait; it was paused for the rewrite of its table and continues now",
        ),
        (Level.LENGTHEN, State.STALLED, "no batch for 6 min while 9 records wait"),
    ],
)
def test_a_stream_that_was_asked_to_wait_is_not_restarted_for_it(judge, make, level, state, words) -> None:
    pressed = TableBackpressure(level, "1000 commits since its history began")
    started = make.seen(commit_age_s=3600.0, lag_records=9, age_s=1.0)
    for seen in (make.seen(commit_age_s=360.0, lag_records=9), started):
        found = judge(observation=seen, backpressure=pressed, driver=make.driver(launched_s=360.0))
        assert found.state is state
        assert words.removeprefix("no batch for 6 min") in found.why.replace(" since it was started", "")


def test_a_stream_that_commits_less_often_says_for_what(judge, make) -> None:
    found = judge(backpressure=TableBackpressure(Level.LENGTHEN, "750 commits since its history began"))
    assert found.state is State.HEALTHY
    assert found.why.endswith("half as often until the next rewrite of its table: 750 commits since its history began")


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
    assert "sent no heartbeat for 95 s" in found.why


def test_a_driver_that_froze_before_its_first_batch_is_stalled_though_nothing_waited(judge, make) -> None:
    quiet = make.seen(query_state="idle", commit_age_s=None, lag_records=0, lag_s=0.0)
    silent = make.driver(age_s=95.0, launched_s=300.0)
    found = judge(observation=quiet, driver=silent, lease=make.lease("stream", "flights", left_s=-90))
    assert (found.state, found.why) == (State.STALLED, "its driver runs but sent no heartbeat for 95 s")
    assert judge(observation=quiet, driver=silent).state is State.HEALTHY, "its lease is renewed"


def test_never_launched_is_starting(judge, make) -> None:
    assert judge(driver=None, process=Life.GONE, lease=None, observation=None).state is State.STARTING


def test_a_quiet_stream_whose_next_batch_gets_nowhere_is_stalled(judge, make) -> None:
    hung = {"query_state": "idle", "commit_age_s": 4 * 3600.0, "lag_records": 5000, "lag_s": 3600.0}
    long_lived = make.driver(launched_s=86400.0)
    found = judge(observation=make.seen(**hung), driver=long_lived)
    assert (found.state, found.why) == (State.STALLED, "no batch for 60 min while 5,000 records wait")
    unknown = {**hung, "lag_records": None, "lag_s": None}
    assert judge(observation=make.seen(**unknown), driver=long_lived).state is State.HEALTHY


def test_records_that_came_just_now_to_a_quiet_stream_are_no_stall(judge, make) -> None:
    came = {"query_state": "idle", "commit_age_s": 4 * 3600.0, "lag_records": 1, "lag_s": 3.0}
    found = judge(observation=make.seen(**came), driver=make.driver(launched_s=86400.0))
    assert (found.state, found.why) == (State.HEALTHY, "batch 812 landed 4 h ago; 1 record waits")


@pytest.mark.parametrize(("waited_s", "state"), [(3.0, State.HEALTHY), (3600.0, State.STALLED)])
def test_the_first_records_of_a_quiet_stream_wait_for_a_while_before_that_is_a_stall(
    judge, make, waited_s, state
) -> None:
    came = make.seen(query_state="idle", commit_age_s=None, lag_records=7, lag_s=waited_s)
    found = judge(observation=came, driver=make.driver(launched_s=86400.0))
    assert found.state is state
    assert "7 records wait" in found.why


def test_a_stream_that_lands_seldom_does_not_stall_in_between(judge, make) -> None:
    waits = make.seen(commit_age_s=900.0, lag_records=9)
    long_lived = make.driver(launched_s=86400.0)
    assert judge(observation=waits, driver=long_lived, every=Duration("10m")).state is State.HEALTHY
    assert judge(observation=waits, driver=long_lived, every=Duration("7m")).state is State.STALLED


@pytest.mark.parametrize("query", ["stopped", "failed"])
@pytest.mark.parametrize("waits", [0, 5000])
def test_a_start_in_a_driver_that_runs_is_not_judged_by_what_was_before(judge, make, query, waits) -> None:
    before = {"commit_age_s": 3 * 3600.0, "age_s": 3 * 3600.0, "lag_records": waits, "error": {"error": "it failed"}}
    start = {
        "stream": make.stream(state="starting", since=make.now - timedelta(seconds=2)),
        "driver": make.driver(launched_s=86400.0),
        "failure": make.failure(age_s=3 * 3600.0, stream="flights"),
    }
    found = judge(**start, observation=make.seen(query_state=query, **before))
    assert (found.state, found.why) == (
        State.STARTING, "its start was requested 2 s ago in a running driver, no batch yet",
    )  # fmt: skip
    runs = {**before, "query_state": "running", "age_s": 1.0, "lag_records": waits or None}
    assert judge(**start, observation=make.seen(**runs)).state is State.STARTING, "its query runs, and nothing is known"
    assert judge(**start, observation=make.seen(**{**runs, "lag_records": 0})).state is State.HEALTHY
    assert judge(**start, observation=make.seen(**{**runs, "commit_age_s": 1.0})).state is State.HEALTHY


@pytest.mark.parametrize("word", ["stopped", "stopping", "blocked"])
def test_what_is_wanted_again_starts_before_any_pass_has_looked(judge, make, word) -> None:
    since = {"state": word, "since": make.now - timedelta(hours=3)}
    long_lived = make.driver(launched_s=86400.0)
    running = make.seen(commit_age_s=4 * 3600.0, lag_records=5000)
    assert judge(stream=make.stream(**since), observation=running, driver=long_lived).state is State.STARTING
    landed = judge(stream=make.stream(**since), observation=make.seen(commit_age_s=5.0), driver=long_lived)
    assert landed.state is (State.HEALTHY if word != "stopping" else State.STARTING), "the last one of before, perhaps"


def test_a_query_that_fails_after_its_start_is_restarting(judge, make) -> None:
    start = make.stream(state="starting", since=make.now - timedelta(seconds=30))
    failed = make.seen(query_state="failed", age_s=5.0, error={"error": "it failed"})
    assert judge(stream=start, observation=failed).state is State.RESTARTING


def test_a_start_that_hangs_in_a_driver_that_runs_becomes_stalled(judge, make) -> None:
    stopped = make.seen(query_state="stopped", commit_age_s=3600.0, age_s=400.0)
    assert judge(observation=stopped, driver=make.driver(launched_s=86400.0)).state is State.STALLED
    just_now = make.seen(query_state="stopped", commit_age_s=3600.0, age_s=2.0)  # e.g. for another generation
    assert judge(observation=just_now, driver=make.driver(launched_s=86400.0)).state is State.STARTING


def test_a_stop_that_nobody_can_see_says_so(judge, make) -> None:
    found = judge(
        stream=make.stream(desired="stopped"), process=Life.UNKNOWN, unreachable="its host is another",
        lease=make.lease("stream", "flights", left_s=-90), driver=make.driver(age_s=90.0),
    )  # fmt: skip
    assert (found.state, found.why) == (State.STOPPING, "its host is another and the driver sent no heartbeat for 90 s")


def test_an_end_from_before_the_start_is_no_failure_of_it(judge, make) -> None:
    start = {
        "stream": make.stream(state="starting", since=make.now - timedelta(seconds=2)), "process": Life.GONE,
        "driver": make.driver(state="buried", launched_s=86400.0),
    }  # fmt: skip
    for failure in (None, make.failure(age_s=3600.0, stream="flights")):
        found = judge(**start, failure=failure)
        assert found.state is State.STARTING
        assert found.why == "its driver ended while none of its streams was to run; the next launch is due"
    assert judge(**start, failure=make.failure(age_s=1.0)).state is State.RESTARTING


HOURLY = "0 * * * *"


def completed(make, ago_s: float = 60.0):
    moment = make.now - timedelta(seconds=ago_s)
    return make.seen(query_state="completed", at=moment, age_s=ago_s, commit_age_s=ago_s, lag_records=None)


def test_what_has_landed_all_there_was_is_completed_whatever_came_since(judge, make) -> None:
    rests = make.stream(desired="stopped")
    found = judge(stream=rests, observation=completed(make), process=Life.GONE, lease=None, schedule=HOURLY)
    assert (found.state, found.why) == (State.COMPLETED, "all that was available has landed, 60 s ago")


def test_a_run_that_did_not_begin_is_late_by_its_schedule(judge, make) -> None:
    """It is 03:00; the run of 03:00 has the limit of freshness before anybody misses it."""
    rests, seen = make.stream(desired="stopped"), completed(make, 2 * 3600.0)
    assert judge(stream=rests, observation=seen, lease=None, schedule=HOURLY).state is State.COMPLETED
    late = judge(stream=rests, observation=seen, lease=None, schedule=HOURLY, now=make.now + timedelta(minutes=10))
    assert late.state is State.LAGGING
    assert late.why.startswith("its run of 2026-03-01 03:00 UTC did not begin, due 10 min ago")
    ran = judge(stream=rests, observation=completed(make, -60.0), lease=None, schedule=HOURLY,
                now=make.now + timedelta(minutes=10))  # fmt: skip
    assert ran.state is State.COMPLETED


def test_an_old_end_says_nothing_of_a_run_that_was_asked_for_since(judge, make) -> None:
    started = make.stream(state="starting", since=make.now - timedelta(seconds=5))
    assert judge(stream=started, observation=completed(make), schedule=HOURLY).state is State.STARTING
    assert judge(stream=make.stream(state="completed"), observation=completed(make)).state is State.STARTING


def test_a_run_lands_old_records_without_lagging(judge, make) -> None:
    old = make.seen(lag_records=5000, lag_s=80_000.0)
    assert judge(observation=old).state is State.LAGGING
    assert judge(observation=old, schedule=HOURLY).state is State.HEALTHY


def test_a_stream_that_waits_for_its_first_run_says_for_what(judge, make) -> None:
    found = judge(stream=make.stream(desired="stopped"), observation=None, driver=None, process=Life.GONE, lease=None,
                  schedule=HOURLY)  # fmt: skip
    assert found.state is State.STOPPED
    assert found.why == "waits for its schedule, 0 * * * * (UTC); it has not landed anything yet"


def test_state_that_has_outgrown_its_bound_is_said_and_changes_no_word(judge, make) -> None:
    held = {"observation": make.seen(state_rows=1001)}
    assert "more than max_rows of 1,000" in judge(**held, max_state_rows=1000).why
    assert judge(**held, max_state_rows=1000).state is State.HEALTHY
    for most in (1001, None):
        assert "max_rows" not in judge(**held, max_state_rows=most).why
    assert "max_rows" not in judge(observation=make.seen(), max_state_rows=1).why, "it keeps no state"
