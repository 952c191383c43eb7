"""Restart policy: how long to wait before the next attempt. Pure: the random number is an argument.

Back-off is 10 s x 2^n with full jitter, capped; n is reset to 0 once the stream has committed for `reset_after`.
Full jitter keeps streams that failed on the same broker from restarting at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from lakeward.platform.failures import Cause, FailureClass
from lakeward.spec.model.stream import Restart as RestartSpec

BASE = timedelta(seconds=10)
POISON_ATTEMPTS = 3
"""A batch that failed this many times in the same way blocks its stream."""
REPEATED_ATTEMPTS = 2
"""An error that depends on the stream alone (the size of its plan, the memory of a batch) is not tried a third time."""

SLOW = {FailureClass.DEPENDENCY: 2.0}
"""Classes with a longer pause: retries do not bring a broker back."""


@dataclass(frozen=True)
class Policy:
    """How far back-off grows, and when it is reset."""

    base: timedelta = BASE
    cap: timedelta = timedelta(minutes=10)
    reset_after: timedelta = timedelta(minutes=30)

    @classmethod
    def of(cls, spec: RestartSpec) -> Policy:
        """The policy a stream's spec asks for."""
        return cls(
            cap=timedelta(seconds=spec.max_backoff.seconds), reset_after=timedelta(seconds=spec.reset_after.seconds)
        )


class Failure(Protocol):
    """The failure before this one (`registry.restarts.Restart` matches)."""

    @property
    def attempt(self) -> int: ...


@dataclass(frozen=True)
class Attempt:
    """What follows a failure: the number of the next attempt (1 is the first), and the pause before it.

    `delay` None: no automatic attempt, a person is needed. `failure_class` is the final class: repeated failures of the
    same batch become `poison`, and an error that must repeat becomes `config`.
    """

    number: int
    delay: timedelta | None
    why: str
    failure_class: FailureClass


def next_attempt(
    failure_class: FailureClass,
    *,
    previous: Failure | None,
    committing_s: float,
    random: Callable[[], float],
    policy: Policy = Policy(),
    same_batch_failures: int = 0,
    same_failures: int = 0,
    cause: Cause | None = None,
) -> Attempt:
    """Decide what follows a failure.

    Args:
        failure_class: class of this failure.
        previous: the failure before this one, None if there was none.
        committing_s: for how many seconds batches were committed since then.
        random: returns a float in [0, 1).
        policy: base, cap and reset of the stream (of a driver: the defaults).
        same_batch_failures: how often this batch, with the same offsets, failed in the same way, this time included; 0
            if not known.
        same_failures: how often the stream failed in the same way in a row, this time included, whether a batch ran or
            not; 0 if not known.
        cause: the named cause, if there is one.
    """
    steady = previous is None or committing_s >= policy.reset_after.total_seconds()
    number = 1 if previous is None or steady else previous.attempt + 1
    if failure_class is FailureClass.CONFIG:
        return Attempt(number, None, "a retry cannot help: a change is needed first", failure_class)
    if _must_repeat(cause, same_batch_failures, same_failures):
        why = f"the same error came {max(same_batch_failures, same_failures)} times: a retry meets it again"
        return Attempt(number, None, why, FailureClass.CONFIG)
    if same_batch_failures >= POISON_ATTEMPTS and _of_the_batch(failure_class, cause):
        why = f"the same batch failed {same_batch_failures} times in the same way"
        return Attempt(number, None, why, FailureClass.POISON)
    pause = _pause(number, policy, SLOW.get(failure_class, 1.0)) * random()
    return Attempt(number, pause, f"attempt {number} in {pause.total_seconds():.0f} s", failure_class)


def _must_repeat(cause: Cause | None, same_batch_failures: int, same_failures: int) -> bool:
    """Whether the error depends on the stream alone and was seen often enough to say so.

    A plan is the same for every batch. Memory is compared by batch: another batch may fit. A table that cannot be
    written may be mended by somebody else meanwhile, so it is tried as often as a batch.
    """
    if cause is Cause.NOT_RECORDS:
        return same_batch_failures >= POISON_ATTEMPTS
    if cause is Cause.PLAN_SIZE:
        return max(same_batch_failures, same_failures) >= REPEATED_ATTEMPTS
    return cause is Cause.OUT_OF_MEMORY and same_batch_failures >= REPEATED_ATTEMPTS


def _of_the_batch(failure_class: FailureClass, cause: Cause | None) -> bool:
    """Whether repeated failures of the same batch may be attributed to that batch.

    A broker or a disk fails for every batch, and a kill from outside is not caused by a batch.
    """
    if failure_class is FailureClass.POISON:
        return True
    return failure_class is FailureClass.INFRA and cause is not Cause.KILLED


def _pause(number: int, policy: Policy, factor: float) -> timedelta:
    # 2**n overflows within a month of attempts: the exponent is bounded, and the cap decides anyway.
    grown = policy.base * (2.0 ** min(number - 1, 20)) * factor
    return min(policy.cap, grown)
