"""Stable, keep waiting, or take back: what decides about a new generation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.registry.generations import Generation
from lakeward.spec.stream import Limits
from lakeward.spec.types import Duration
from lakeward.streams.proof import Proving, Stable, TakeBack, Trial, Wait, judge


@pytest.fixture
def trial(make):
    """Generation 2 was begun five minutes ago and has five more to land three batches."""
    proving = Proving(2, 1, make.now - timedelta(minutes=5), make.now + timedelta(minutes=5), 3, "ada")

    def build(**values):
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
    one = Proving(2, None, make.now, make.now, 3, "ada")
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
    slow = trial(landed=3, observation=make.seen(**seen), limits=limits)
    assert isinstance(judge(slow), Wait)
    back = judge(replace(slow, now=late(make)))
    assert isinstance(back, TakeBack)
    assert back.to == 1
    assert words in back.why


def test_too_few_batches_while_records_wait_take_it_back(trial, make) -> None:
    back = judge(trial(landed=1, observation=make.seen(lag_records=9, lag_s=1.0), now=late(make)))
    assert back == TakeBack(1, "in 11 min: only 1 of 3 batches landed")


def test_nothing_to_land_proves_nothing_and_its_time_begins_anew(trial, make) -> None:
    wait = judge(trial(landed=0, observation=make.seen(lag_records=0), now=late(make)))
    assert isinstance(wait, Wait)
    assert wait.until == late(make) + timedelta(minutes=10)


def test_a_dependency_that_is_away_is_not_its_fault(trial, make) -> None:
    wait = judge(trial(landed=0, observation=make.seen(lag_records=9), excused="Kafka is away", now=late(make)))
    assert isinstance(wait, Wait)
    assert wait.until is not None
    assert "Kafka is away" in wait.why


@pytest.mark.parametrize("reason", ["config", "poison"])
def test_what_trying_again_cannot_help_takes_it_back_at_once(trial, reason) -> None:
    back = judge(trial(stream={"blocked": {"reason": reason, "what": "no such column: x"}}))
    assert back == TakeBack(1, "no such column: x")


def test_a_block_for_the_datas_sake_is_never_answered_with_another_generation(trial) -> None:
    assert judge(trial(stream={"blocked": {"reason": "gap", "what": "offsets are gone"}})) is None


def test_it_is_taken_back_once_and_then_waits_for_a_person(trial, make) -> None:
    blocked = {"blocked": {"reason": "config", "what": "no such column: x"}}
    assert judge(trial(stream=blocked, failed_at=make.now)) is None
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
