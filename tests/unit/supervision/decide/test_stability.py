"""Stable, keep waiting, or take back: what decides about a new generation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.registry.generations import Generation
from lakeward.spec.model.stream import Limits
from lakeward.spec.model.types import Duration
from lakeward.supervision.decide.stability import Proving, Stable, TakeBack, Trial, Wait, judge, within


@pytest.fixture
def trial(make):
    """Generation 2 was begun five minutes ago and has five more to land three batches; it is looked at every minute."""
    begun, end = make.now - timedelta(minutes=5), make.now + timedelta(minutes=5)

    def build(**values):
        looked = values.get("now", make.now) - timedelta(minutes=1)
        proving = Proving(2, 1, begun, end, 3, "ada", looked)
        stream = make.stream(generation=2, proving=proving.stored(), **values.pop("stream", {}))
        generation = Generation(
            "flights", 2, {}, "d", None, {}, {}, "ada", "flights", make.now, values.pop("stable_at", None),
            values.pop("failed_at", None),
        )  # fmt: skip
        base = {
            "stream": stream, "generation": generation, "limits": Limits(), "observation": make.seen(),
            "landed": 0, "last_stable": 1, "now": make.now,
        }  # fmt: skip
        return Trial(**{**base, **values})

    return build


def late(make):
    return make.now + timedelta(minutes=6)


def test_a_proof_survives_the_registry(make) -> None:
    one = Proving(2, None, make.now, make.now, 3, "ada", make.now, 12.5)
    assert Proving.of(one.stored()) == one


def test_enough_batches_with_lag_under_the_limit_are_stable(trial) -> None:
    assert judge(trial(landed=3)) == Stable("3 batches landed, lag under the limit")
    assert isinstance(judge(trial(landed=2)), Wait)


@pytest.mark.parametrize(
    ("seen", "limits", "words"),
    [
        ({"lag_records": 5000}, Limits(lag_records=1000), "5,000 records wait, the limit is 1,000"),
        ({"lag_records": 7, "lag_s": 400.0}, Limits(freshness=Duration("2m")), "7 min behind its source"),
    ],
)
def test_a_generation_that_lags_is_taken_back_when_its_time_is_over_and_says_why(trial, make, seen, limits, words):
    slow = {"landed": 3, "observation": make.seen(**seen), "limits": limits}
    assert isinstance(judge(trial(**slow)), Wait)
    back = judge(trial(**slow, now=late(make)))
    assert isinstance(back, TakeBack)
    assert back.to == 1
    assert words in back.why


def test_too_few_batches_while_records_wait_take_it_back(trial, make) -> None:
    back = judge(trial(landed=1, observation=make.seen(lag_records=9, lag_s=1.0), now=late(make)))
    assert back == TakeBack(1, "in 11 min: only 1 of 3 batches landed")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"observation": {"lag_records": 0}}, "no records came"),
        ({"excused": "Kafka is away"}, "Kafka is away"),
        ({"stream": {"desired": "stopped"}}, "it is stopped"),
        ({"stream": {"hold": timedelta(hours=1)}}, "it is held"),
        ({"stream": {"blocked": {"reason": "gap", "what": "offsets are gone"}}}, "it is blocked"),
    ],
)
def test_time_in_which_it_could_not_land_does_not_count(trial, make, values, why) -> None:
    seen = make.seen(**{"lag_records": 9, **values.pop("observation", {})})
    if "hold" in values.get("stream", {}):
        values = {"stream": {"hold_until": late(make) + values["stream"]["hold"]}}
    wait = judge(trial(observation=seen, now=late(make), **values))
    assert isinstance(wait, Wait)
    assert wait.why == f"this time does not count: {why}"
    assert wait.proving is not None
    assert wait.proving.until == make.now + timedelta(minutes=6)  # it had five, and one passed since the last look
    assert (wait.proving.looked, wait.proving.lost_s) == (late(make), 60.0)


def test_an_hour_in_which_nobody_looked_does_not_count(trial, make) -> None:
    waits = make.seen(lag_records=9)
    one = trial(observation=waits)
    wait = judge(replace(one, now=make.now + timedelta(hours=1)))
    assert isinstance(wait, Wait)
    assert wait.proving is not None
    assert wait.proving.until == make.now + timedelta(hours=1, minutes=6)


def test_what_was_stopped_for_an_hour_has_the_rest_of_its_time_and_its_batches(trial, make) -> None:
    """Minute by minute: three run, an hour does not, then nothing lands."""
    at, ran = make.now - timedelta(minutes=5), 0
    one = trial(landed=2, observation=make.seen(lag_records=9, lag_s=1.0))
    stream = replace(one.stream, proving={**one.stream.proving, "looked": at.isoformat()})
    while True:
        at += timedelta(minutes=1)
        minute = (at - make.now).total_seconds() / 60 + 5
        ran += not 3 < minute <= 63
        found = judge(
            replace(one, now=at, stream=replace(stream, desired="stopped" if 3 < minute <= 63 else "running"))
        )
        if isinstance(found, TakeBack):
            break
        stream = replace(stream, proving=found.proving.stored())
    assert ran == 10
    assert found.why == "in 10 min: only 2 of 3 batches landed"


@pytest.mark.parametrize(
    ("every", "minutes"), [(None, 10), (Duration("30s"), 10), (Duration("3m"), 21), (Duration("1h"), 420)]
)
def test_a_slow_trigger_has_time_for_two_batches_more_than_it_needs(every, minutes) -> None:
    assert within(every) == timedelta(minutes=minutes)


@pytest.mark.parametrize("reason", ["config", "poison", "state-unfit"])
def test_what_trying_again_cannot_help_takes_it_back_at_once(trial, reason) -> None:
    back = judge(trial(stream={"blocked": {"reason": reason, "what": "no such column: x"}}))
    assert back == TakeBack(1, "no such column: x")


def test_a_block_for_the_datas_sake_is_never_answered_with_another_generation(trial, make) -> None:
    blocked = {"blocked": {"reason": "gap", "what": "offsets are gone"}}
    for landed in (0, 3):
        assert isinstance(judge(trial(stream=blocked, landed=landed, now=late(make))), Wait)


def test_it_is_taken_back_once_and_then_waits_for_a_person(trial, make) -> None:
    blocked = {"blocked": {"reason": "config", "what": "no such column: x"}}
    assert isinstance(judge(trial(stream=blocked, failed_at=make.now)), Wait)
    assert isinstance(
        judge(trial(landed=0, failed_at=make.now, observation=make.seen(lag_records=9), now=late(make))), Wait
    )
    assert isinstance(judge(trial(landed=3, failed_at=make.now)), Stable)


def test_without_an_upgrade_a_config_failure_goes_back_to_the_last_stable_generation_once(trial, make) -> None:
    def plain(**values):
        one = trial(**values)
        return replace(one, stream=replace(one.stream, proving=None))

    blocked = {"blocked": {"reason": "config", "what": "no such column: x"}}
    assert judge(plain(stream=blocked)) == TakeBack(1, "no such column: x")
    assert judge(plain(stream=blocked, last_stable=None)) is None
    assert judge(plain(stream=blocked, stable_at=make.now)) is None  # it proved itself: something outside changed


def test_a_first_generation_becomes_stable_by_landing(trial) -> None:
    one = trial(landed=5, last_stable=None)
    assert isinstance(judge(replace(one, stream=replace(one.stream, proving=None))), Stable)


def test_a_proof_of_another_generation_takes_nothing_back(trial, make) -> None:
    one = trial(landed=0, observation=make.seen(lag_records=9), now=late(make), last_stable=None)
    other = replace(one.stream, proving={**one.stream.proving, "generation": 7})
    assert isinstance(judge(replace(one, stream=other)), Wait)


def test_a_run_that_landed_all_there_was_proves_a_generation_with_a_schedule(trial, make) -> None:
    done = make.seen(query_state="completed", at=make.now - timedelta(minutes=1), lag_s=80_000.0, lag_records=9)
    rests = {"desired": "stopped"}
    ran = trial(landed=1, observation=done, scheduled=True, stream=rests)
    assert judge(ran) == Stable("1 batch landed, all that was available")
    assert isinstance(judge(replace(ran, landed=0)), Wait), "it had nothing to land"
    before = replace(done, at=make.now - timedelta(minutes=6))
    assert isinstance(judge(replace(ran, observation=before)), Wait), "that was the generation before"


def test_old_records_are_no_lag_of_a_generation_with_a_schedule(trial, make) -> None:
    behind = make.seen(lag_records=9, lag_s=80_000.0)
    assert isinstance(judge(trial(landed=3, observation=behind)), Wait)
    assert isinstance(judge(trial(landed=3, observation=behind, scheduled=True)), Stable)
