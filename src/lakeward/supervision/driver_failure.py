"""What follows the death of a driver: its class, the pause before the next attempt, or the stream that waits.

The driver decides the same for the failures of single queries; here is what only somebody outside can see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from lakeward.platform.failures import FailureClass
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import listed
from lakeward.registry import events, restarts, streams
from lakeward.registry.drivers import Driver
from lakeward.supervision import attribution
from lakeward.supervision.attribution import Attribution
from lakeward.supervision.decide import restart
from lakeward.supervision.decide.restart import POISON_ATTEMPTS, Attempt
from lakeward.supervision.observe import Facts
from lakeward.supervision.termination import Death

APART_S = 120.0
"""Streams that may all be to blame are started one after another, this far apart: the next death names one."""


@dataclass(frozen=True)
class Failing:
    """Records failures of whole drivers. `chance` gives a float in [0, 1), for jitter."""

    runtime: Runtime
    chance: Callable[[], float]

    def not_started(self, connection: Connection, name: str, text: str, facts: Facts) -> Attempt:
        """A driver that could not even be started."""
        attempt = self._attempt(name, facts, FailureClass.INFRA)
        self._record(connection, name, text, attempt, attempt.delay, None)
        return attempt

    def died(self, connection: Connection, row: Driver, death: Death, text: str, facts: Facts) -> Attempt:
        """Record the death of a driver with streams that should run, and what follows."""
        found = attribution.of(connection, facts, row, death, text)
        attempt = restart.decide(
            death.judgement.failure_class,
            previous=facts.failures.get((row.name, None)),
            committing_s=_committing_s(row.name, facts),
            random=self.chance,
            same_batch_failures=found.worst if len(found.suspects) == 1 else 0,
            cause=death.judgement.cause,
        )
        delay = attempt.delay
        if delay is None:
            delay = self._block(connection, row, death, text, facts, found, attempt)
        elif found.worst >= POISON_ATTEMPTS and len(found.suspects) > 1:
            _apart(connection, row.name, found, facts)
        self._record(connection, row.name, text, attempt, delay, death.code)
        events.record(
            connection,
            "driver",
            row.name,
            "failed",
            f"{text}; {attempt.why}",
            exit_code=death.code,
            failure_class=attempt.failure_class.value,
            cause=death.judgement.cause,
        )
        return attempt

    def _attempt(self, name: str, facts: Facts, kind: FailureClass) -> Attempt:
        return restart.decide(
            kind,
            previous=facts.failures.get((name, None)),
            committing_s=_committing_s(name, facts),
            random=self.chance,
        )

    def _block(
        self,
        connection: Connection,
        row: Driver,
        death: Death,
        text: str,
        facts: Facts,
        found: Attribution,
        attempt: Attempt,
    ) -> timedelta | None:
        """Make the streams to blame wait for a person; the pause before the others are started again."""
        # Read now: the driver may have blocked one after the facts were, and what it said of it must stay.
        hosted = {item.id: item for item in streams.of_driver(connection, row.name) if item.desired == "running"}
        free = [name for name, item in hosted.items() if item.blocked is None]
        poison = attempt.failure_class is FailureClass.POISON
        to_blame: Sequence[str | None] = (
            found.suspects if poison else [death.stream] if death.stream in hosted else free
        )
        blamed = [name for name in free if name in to_blame]
        for stream in blamed:
            self._wait_for_a_person(connection, facts, row, stream, death, text, attempt)
        if not blamed:
            return restart.BASE  # nobody is left to wait for a person: trying again in circles helps nobody
        # The other streams of this driver have done nothing wrong.
        return timedelta(0) if set(free) - set(blamed) else None

    def _wait_for_a_person(
        self,
        connection: Connection,
        facts: Facts,
        row: Driver,
        stream: str,
        death: Death,
        text: str,
        attempt: Attempt,
    ) -> None:
        place = attribution.place(connection, facts, self.runtime, row, stream, death)
        reason = {
            "reason": attempt.failure_class.value,
            "what": text.splitlines()[0],
            "why": attempt.why,
            "next": f"lakeward streams logs {stream}, then lakeward streams start {stream}",
            **place,
        }
        if attempt.failure_class is FailureClass.POISON:
            reason["what"] = f"Batch {place['batch']} of stream {stream} ends its driver each time: {attempt.why}"
            reason["why"] = text.splitlines()[0]
            start = f"lakeward streams start {stream}"
            reason["next"] = (
                f"correct the transform (lakeward deploy), then: {start}; or give its records up: "
                f"lakeward streams skip-batch {stream} --batch {place['batch']} --dry-run   shows them first"
            )
        streams.block(connection, stream, reason)
        events.record(connection, "stream", stream, "blocked", f"Waits for a person: {reason['what']}", **reason)

    def _record(
        self,
        connection: Connection,
        name: str,
        text: str,
        attempt: Attempt,
        delay: timedelta | None,
        code: int | None,
    ) -> None:
        restarts.record(
            connection,
            driver=name,
            stream=None,
            failure_class=attempt.failure_class.value,
            error=text,
            attempt=attempt.number,
            delay=delay,
            exit_code=code,
        )


def _apart(connection: Connection, name: str, found: Attribution, facts: Facts) -> None:
    """Start the suspects one after another, so that the next death says which one it was."""
    first, *others = found.suspects
    for number, stream in enumerate(others, start=1):
        streams.set_run_after(connection, stream, facts.now + timedelta(seconds=APART_S * number))
    text = (
        f"Died {found.worst} times alike with {listed(found.suspects)} in a batch: {first} is started first, the others"
        f" {APART_S:.0f} s apart, to find the one"
    )
    events.record(connection, "driver", name, "apart", text, suspects=found.suspects)


def _committing_s(name: str, facts: Facts) -> float:
    """For how long the streams of a driver committed batches since its launch, in seconds."""
    row = facts.drivers.get(name)
    if row is None:
        return 0.0
    committed: Sequence[float] = [
        (seen.committed_at - row.launched_at).total_seconds()
        for item in facts.streams
        if item.driver == name
        and (seen := facts.observations.get(item.id)) is not None
        and seen.committed_at is not None
    ]
    return max(committed, default=0.0)
