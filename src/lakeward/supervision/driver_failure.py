"""Driver failure: classify the death of a driver, and schedule the next attempt or block the stream at fault.

The driver itself handles failures of single queries. This module handles failures that are visible from outside only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from lakeward.platform.errors import Awaited, DependencyDown, LakewardError, SpecError
from lakeward.platform.failures import FailureClass
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import listed
from lakeward.registry import events, restarts, streams
from lakeward.registry.drivers import Driver
from lakeward.registry.streams import Block
from lakeward.supervision import attribution
from lakeward.supervision.attribution import Attribution
from lakeward.supervision.decide import repeated, restart
from lakeward.supervision.decide.restart import POISON_ATTEMPTS, Attempt
from lakeward.supervision.observe import Facts
from lakeward.supervision.termination import Death

STAGGER_S = 120.0
"""When several streams are suspects, they are started this far apart: the next failure then identifies one."""


@dataclass(frozen=True)
class Failing:
    """Records failures of whole drivers. `chance` returns a float in [0, 1), for jitter."""

    runtime: Runtime
    chance: Callable[[], float]

    def not_started(self, connection: Connection, name: str, error: LakewardError, facts: Facts) -> Attempt:
        """Record a driver that could not be started. A connection or login that is missing waits for a person, as it
        does in a driver: its streams are blocked in the words of the error."""
        kind = FailureClass.INFRA
        if isinstance(error, DependencyDown | Awaited):  # the cluster that would run it
            kind = FailureClass.DEPENDENCY
        elif isinstance(error, SpecError):
            kind = FailureClass.CONFIG
        attempt = self._attempt(name, facts, kind)
        if kind is FailureClass.CONFIG:
            for stream in streams.of_driver(connection, name):
                if stream.desired == "running" and stream.blocked is None:
                    _block_by(connection, stream.id, error)
        self._record(connection, name, str(error), attempt, attempt.delay, None)
        return attempt

    def died(self, connection: Connection, row: Driver, death: Death, text: str, facts: Facts) -> Attempt:
        """Record the death of a driver that had streams to run, and decide what follows."""
        suspected = attribution.of(connection, facts, row, death, text)
        attempt = restart.next_attempt(
            death.judgement.failure_class,
            previous=facts.failures.get((row.name, None)),
            committing_s=_committing_s(row.name, facts),
            random=self.chance,
            same_batch_failures=suspected.worst if len(suspected.suspects) == 1 else 0,
            cause=death.judgement.cause,
        )
        delay = attempt.delay
        if delay is None:
            delay = self._block(connection, row, death, text, facts, suspected, attempt)
        elif suspected.worst >= POISON_ATTEMPTS and len(suspected.suspects) > 1:
            _stagger(connection, row.name, suspected, facts)
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
        return restart.next_attempt(
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
        suspected: Attribution,
        attempt: Attempt,
    ) -> timedelta | None:
        """Block the streams at fault; returns the pause before the other streams are started again."""
        # Read now: the driver may have blocked a stream after the facts were read, and its reason must stay.
        hosted = {item.id: item for item in streams.of_driver(connection, row.name) if item.desired == "running"}
        free = [name for name, item in hosted.items() if item.blocked is None]
        # What the stream at fault brought about itself: its batch, its memory, its plan.
        own = attempt.failure_class is FailureClass.POISON or death.judgement.cause in repeated.OF_THE_STREAM
        to_blame: Sequence[str | None] = (
            suspected.suspects if own else [death.stream] if death.stream in hosted else free
        )
        blamed = [name for name in free if name in to_blame]
        for stream in blamed:
            self._block_stream(connection, facts, row, stream, death, text, attempt)
        if not blamed:
            return restart.BASE  # every stream is blocked already: no tight restart loop
        # The other streams of this driver are not at fault.
        return timedelta(0) if set(free) - set(blamed) else None

    def _block_stream(
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
        reason: Block = {
            "reason": attempt.failure_class.value,
            "what": text.splitlines()[0],
            "why": attempt.why,
            "next": f"lakeward streams logs {stream}, then lakeward streams start {stream}",
            **place,
        }
        if attempt.failure_class is FailureClass.CONFIG and (
            way_out := repeated.next_step(death.judgement.cause, stream)
        ):
            reason["next"] = way_out
        if attempt.failure_class is FailureClass.POISON:
            reason["what"] = f"Stream {stream}: batch {place['batch']} kills its driver: {attempt.why}"
            reason["why"] = text.splitlines()[0]
            reason["next"] = (
                f"correct the transform in conf/streams/{stream}.yaml, then: lakeward deploy; "
                f"lakeward streams upgrade {stream} --wait; or skip its records: "
                f"lakeward streams skip-batch {stream} --batch {place['batch']} "
                f'--comment "batch {place["batch"]} kills its driver"   shows them and asks'
            )
        streams.block(connection, stream, reason)
        events.record(connection, "stream", stream, "blocked", f"Blocked: {reason['what']}", **reason)

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


def _block_by(connection: Connection, stream: str, error: LakewardError) -> None:
    """Block a stream in the words of an error, whose next step ends with the start of the stream."""
    start = f"lakeward streams start {stream}"
    reason: Block = {
        "reason": FailureClass.CONFIG.value,
        "what": error.headline,
        "why": error.why,
        "next": f"{error.next or 'correct it'}; then: {start}",
    }
    streams.block(connection, stream, reason)
    events.record(connection, "stream", stream, "blocked", f"Blocked: {reason['what']}", **reason)


def _stagger(connection: Connection, name: str, suspected: Attribution, facts: Facts) -> None:
    """Start the suspects one after another, so that the next failure identifies one."""
    first, *others = suspected.suspects
    for number, stream in enumerate(others, start=1):
        streams.set_run_after(connection, stream, facts.now + timedelta(seconds=STAGGER_S * number))
    text = (
        f"Died {suspected.worst} times in the same way while {listed(suspected.suspects)} ran a batch: {first} is"
        f" started first, the others {STAGGER_S:.0f} s apart, to find the one at fault"
    )
    events.record(connection, "driver", name, "apart", text, suspects=suspected.suspects)


def _committing_s(name: str, facts: Facts) -> float:
    """Seconds between the launch of a driver and the newest commit of its streams."""
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
