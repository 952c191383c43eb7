"""Proof: whether a new generation is stable, needs more time, or has to be taken back. Pure.

A generation is stable after `batches` landed batches with lag under the limits. One that does not get there in time,
or that fails in a way trying again cannot help, gives way to the generation before it, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from lakeward.registry.generations import Generation
from lakeward.registry.observations import Observation
from lakeward.registry.streams import Stream
from lakeward.spec.stream import Limits
from lakeward.streams.words import span

BATCHES = 5
"""Landed batches that prove a generation."""
WITHIN = timedelta(minutes=10)
"""How long a new generation has for that, while there are records to land."""
OF_THE_GENERATION = frozenset({"config", "poison"})
"""Reasons to wait for a person that the generation before may not have."""


@dataclass(frozen=True)
class Proving:
    """What an upgrade wrote: `generation` has to land `batches` batches before `until`, or `previous` comes back."""

    generation: int
    previous: int | None
    since: datetime
    until: datetime
    batches: int = BATCHES
    author: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """As `streams.proving` keeps it."""
        return cls(
            generation=int(stored["generation"]),
            previous=None if stored.get("previous") is None else int(stored["previous"]),
            since=datetime.fromisoformat(str(stored["since"])),
            until=datetime.fromisoformat(str(stored["until"])),
            batches=int(stored.get("batches") or BATCHES),
            author=str(stored.get("author") or ""),
        )

    def stored(self) -> dict[str, Any]:
        """The form the registry keeps."""
        return {
            "generation": self.generation,
            "previous": self.previous,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "batches": self.batches,
            "author": self.author,
        }


@dataclass(frozen=True)
class Stable:
    """It proved itself."""

    why: str


@dataclass(frozen=True)
class Wait:
    """Not yet. `until`: its time begins anew, because nothing came to prove it with."""

    why: str
    until: datetime | None = None


@dataclass(frozen=True)
class TakeBack:
    """Generation `to` comes back."""

    to: int
    why: str


@dataclass(frozen=True)
class Trial:
    """What is known of a generation that has not proved itself.

    Attributes:
        landed: batches it landed, counted up to what is needed.
        last_stable: the newest generation before it that proved itself and shares its checkpoint; None if none does.
        excused: why it cannot land just now that is not its fault, e.g. its broker is away.
    """

    stream: Stream
    generation: Generation
    limits: Limits
    observation: Observation | None
    landed: int
    last_stable: int | None
    now: datetime
    excused: str | None = None


def judge(trial: Trial) -> Stable | Wait | TakeBack | None:
    """What to do about the generation a stream runs; None: nothing, it is stable or nobody may decide."""
    stream, generation = trial.stream, trial.generation
    proving = _proving(trial)
    back = proving.previous if proving is not None and proving.previous is not None else trial.last_stable
    if generation.failed_at is not None:
        back = None  # it was taken back once already: a person runs it again, and decides
    if stream.blocked is not None:
        if stream.blocked.get("reason") not in OF_THE_GENERATION or back is None or generation.stable_at is not None:
            return None
        return TakeBack(back, str(stream.blocked.get("what") or "it cannot run"))
    if generation.stable_at is not None and proving is None:
        return None
    late = _late(trial)
    needed = proving.batches if proving is not None else BATCHES
    if trial.landed >= needed and late is None:
        return Stable(f"{_batches(trial.landed)} landed, lag under the limit")
    if proving is None or stream.desired != "running":
        return Wait("it has not landed enough batches yet")
    if trial.now < proving.until:
        return Wait(late or f"{trial.landed} of {_batches(needed)} landed")
    if trial.excused is not None:
        return Wait(f"its time begins anew: {trial.excused}", trial.now + (proving.until - proving.since))
    if late is None and _idle(trial.observation):
        return Wait("its time begins anew: nothing came to land", trial.now + (proving.until - proving.since))
    took = span((trial.now - proving.since).total_seconds())
    why = late or f"only {trial.landed} of {_batches(needed)} landed"
    if back is None:
        return Wait(f"{why} in {took}, and there is no generation to go back to")
    return TakeBack(back, f"in {took}: {why}")


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number:,} batches"


def _proving(trial: Trial) -> Proving | None:
    stored = trial.stream.proving
    found = None if stored is None else Proving.of(stored)
    # A proof of another generation is somebody's leftover: it proves nothing about this one.
    return found if found is not None and found.generation == trial.stream.generation else None


def _late(trial: Trial) -> str | None:
    """Why its lag is over a limit, or None."""
    seen, limits = trial.observation, trial.limits
    if seen is None:
        return None
    if limits.lag_records is not None and seen.lag_records is not None and seen.lag_records > limits.lag_records:
        return f"{seen.lag_records:,} records wait, the limit is {limits.lag_records:,}"
    if seen.lag_records != 0 and seen.lag_s is not None and seen.lag_s > limits.freshness.seconds:
        return f"it is {span(seen.lag_s)} behind its source, the limit is {limits.freshness}"
    return None


def _idle(seen: Observation | None) -> bool:
    return seen is not None and (seen.lag_records == 0 or seen.query_state == "idle")
