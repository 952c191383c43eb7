from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.platform.failures import Cause, FailureClass
from lakeward.spec.model.stream import Restart as RestartSpec
from lakeward.spec.model.types import Duration
from lakeward.supervision.decide.restart import Policy, next_attempt

DEFAULT = Policy()


@dataclass(frozen=True)
class Before:
    attempt: int
    age_s: float = 60.0


def pause(number: int, kind: FailureClass = FailureClass.INFRA, chance: float = 1.0, policy: Policy = DEFAULT) -> float:
    previous = None if number == 1 else Before(number - 1)
    attempt = next_attempt(kind, previous=previous, committing_s=0, random=lambda: chance, policy=policy)
    assert attempt.number == number
    assert attempt.delay is not None
    return attempt.delay.total_seconds()


def test_pauses_double_up_to_the_cap() -> None:
    assert [pause(number) for number in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]


def test_jitter_is_full() -> None:
    assert pause(4, chance=0.0) == 0
    assert pause(4, chance=0.5) == 40


def test_a_dependency_waits_longer() -> None:
    assert pause(1, FailureClass.DEPENDENCY) == 20


def test_thirty_minutes_of_batches_forgive() -> None:
    kind, chance = FailureClass.INFRA, (lambda: 1.0)
    almost = next_attempt(kind, previous=Before(7), committing_s=1799, random=chance)
    forgiven = next_attempt(kind, previous=Before(7), committing_s=1800, random=chance)
    assert (almost.number, forgiven.number) == (8, 1)


def test_a_configuration_error_is_not_tried_again() -> None:
    assert next_attempt(FailureClass.CONFIG, previous=None, committing_s=0, random=lambda: 0.5).delay is None


def test_the_same_batch_three_times_waits_for_a_person() -> None:
    def poisoned(times: int) -> timedelta | None:
        return next_attempt(
            FailureClass.POISON, previous=None, committing_s=0, random=lambda: 0.5, same_batch_failures=times
        ).delay

    assert poisoned(2) is not None
    assert poisoned(3) is None


def test_the_spec_names_cap_and_reset() -> None:
    policy = Policy.of(RestartSpec(max_backoff=Duration("30s"), reset_after=Duration("1m")))
    assert pause(9, policy=policy) == 30
    assert policy.reset_after == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("kind", "cause", "blocks"),
    [
        (FailureClass.INFRA, Cause.PYTHON_WORKER, True),
        (FailureClass.INFRA, Cause.HUNG, True),
        (FailureClass.INFRA, None, True),
        (FailureClass.INFRA, Cause.KILLED, False),  # somebody outside did it, whatever batch it met
        (FailureClass.DEPENDENCY, None, False),
        (FailureClass.DEPENDENCY, Cause.DISK_FULL, False),
    ],
)
def test_what_meets_the_same_batch_three_times_is_that_batchs_unless_it_came_from_outside(kind, cause, blocks) -> None:
    attempt = next_attempt(kind, previous=None, committing_s=0, random=lambda: 0.5, same_batch_failures=3, cause=cause)
    assert (attempt.delay is None) is blocks
    assert attempt.failure_class is (FailureClass.POISON if blocks else kind)


@given(st.integers(1, 10**6), st.floats(0, 0.999), st.sampled_from([FailureClass.INFRA, FailureClass.DEPENDENCY]))
def test_a_pause_is_never_negative_nor_above_the_cap(number: int, chance: float, kind: FailureClass) -> None:
    attempt = next_attempt(kind, previous=Before(number), committing_s=0, random=lambda: chance)
    assert attempt.delay is not None
    assert timedelta(0) <= attempt.delay <= Policy().cap


@pytest.mark.parametrize("kind", list(FailureClass))
def test_every_class_has_an_answer(kind: FailureClass) -> None:
    assert next_attempt(kind, previous=None, committing_s=0, random=lambda: 0.5).why


@pytest.mark.parametrize(
    ("cause", "same_batch", "same", "blocks"),
    [
        (Cause.PLAN_SIZE, 0, 1, False),
        (Cause.PLAN_SIZE, 0, 2, True),  # before the first batch
        (Cause.PLAN_SIZE, 2, 0, True),  # a driver died of it, and one stream is suspected
        (Cause.OUT_OF_MEMORY, 1, 1, False),
        (Cause.OUT_OF_MEMORY, 0, 2, False),  # no batch ran: another stream of the driver may have needed the memory
        (Cause.OUT_OF_MEMORY, 2, 2, True),
        (Cause.EXECUTOR, 2, 2, False),
        (Cause.NOT_RECORDS, 2, 2, False),
        (Cause.NOT_RECORDS, 3, 3, True),
        (None, 2, 2, False),
    ],
)
def test_an_error_that_must_repeat_waits_for_a_change_after_the_second_time(cause, same_batch, same, blocks) -> None:
    attempt = next_attempt(
        FailureClass.INFRA, previous=None, committing_s=0, random=lambda: 0.5,
        same_batch_failures=same_batch, same_failures=same, cause=cause,
    )  # fmt: skip
    assert (attempt.delay is None, attempt.failure_class) == (
        blocks, FailureClass.CONFIG if blocks else FailureClass.INFRA,
    )  # fmt: skip
