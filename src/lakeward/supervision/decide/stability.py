"""Stability of a new generation: stable, needs more time, or has to be rolled back. Pure.

A generation is stable after `batches` landed batches with lag under the limits. A generation that does not reach that
in time, or that fails in a way that a retry cannot help, is rolled back to the generation before it, once. Only time
in which it could land counts: not while it is stopped or held, while no records come, or while no pass runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from lakeward.platform.text import span
from lakeward.registry.generations import Generation
from lakeward.registry.observations import Observation
from lakeward.registry.streams import StoredProving, Stream
from lakeward.spec.model.stream import Limits
from lakeward.spec.model.types import Duration
from lakeward.supervision.decide.health import idle

BATCHES = 5
"""Landed batches that prove a generation."""
WITHIN = timedelta(minutes=10)
"""The shortest time a new generation has to prove itself, while there are records to land."""
UNOBSERVED = timedelta(minutes=3)
"""A longer gap between two passes does not count: the machine may have been off."""
OF_THE_GENERATION = frozenset({"config", "poison", "state-unfit"})
"""Reasons of a block that the previous generation may not have."""


def within(every: Duration | None) -> timedelta:
    """How long a new generation has, by its trigger's interval: time for two batches more than it needs."""
    return WITHIN if every is None else max(WITHIN, (BATCHES + 2) * every.timedelta)


@dataclass(frozen=True)
class Proving:
    """The conditions an upgrade recorded: `generation` has to land `batches` batches before `until`, or it is rolled
    back to `previous`.

    `until` is extended by the time that does not count: `lost_s` seconds so far, last judged at `looked`.
    """

    generation: int
    previous: int | None
    since: datetime
    until: datetime
    batches: int = BATCHES
    author: str = ""
    looked: datetime | None = None
    lost_s: float = 0.0

    @classmethod
    def of(cls, stored: StoredProving) -> Self:
        """Read the form that `streams.proving` stores."""
        return cls(
            generation=int(stored["generation"]),
            previous=stored.get("previous"),
            since=datetime.fromisoformat(str(stored["since"])),
            until=datetime.fromisoformat(str(stored["until"])),
            batches=int(stored.get("batches") or BATCHES),
            author=str(stored.get("author") or ""),
            looked=datetime.fromisoformat(looked) if (looked := stored.get("looked")) else None,
            lost_s=float(stored.get("lost_s") or 0.0),
        )

    def stored(self) -> StoredProving:
        """The form that the registry stores."""
        return {
            "generation": self.generation,
            "previous": self.previous,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "batches": self.batches,
            "author": self.author,
            "looked": None if self.looked is None else self.looked.isoformat(),
            "lost_s": self.lost_s,
        }


@dataclass(frozen=True)
class Stable:
    """The generation is stable."""

    why: str


@dataclass(frozen=True)
class Wait:
    """Not stable yet. `proving`: the updated conditions; None without an upgrade."""

    why: str
    proving: Proving | None = None


@dataclass(frozen=True)
class TakeBack:
    """Roll back to generation `to`."""

    to: int
    why: str


@dataclass(frozen=True)
class Trial:
    """What is known of a generation that is not stable yet.

    Attributes:
        landed: batches it landed, counted up to the number needed.
        last_stable: the newest stable generation before it that shares its checkpoint; None without one.
        excused: an external reason why it cannot land now, e.g. its broker is down.
        scheduled: it lands what is available and completes: its schedule decides on lag and number of batches.
    """

    stream: Stream
    generation: Generation
    limits: Limits
    observation: Observation | None
    landed: int
    last_stable: int | None
    now: datetime
    excused: str | None = None
    scheduled: bool = False


def judge(trial: Trial) -> Stable | Wait | TakeBack | None:
    """What to do about the generation a stream runs; None: nothing, it is stable or a person decides."""
    stream, generation = trial.stream, trial.generation
    proving = _proving(trial)
    back = proving.previous if proving is not None and proving.previous is not None else trial.last_stable
    if generation.failed_at is not None:
        back = None  # it was rolled back before, and a person started it again: a person decides
    if stream.blocked is not None:
        of_its_own = stream.blocked.get("reason") in OF_THE_GENERATION
        if of_its_own and back is not None and generation.stable_at is None:
            return TakeBack(back, str(stream.blocked.get("what") or "it cannot run"))
    if proving is None and (stream.blocked is not None or generation.stable_at is not None):
        return None
    late = _late(trial)
    needed = proving.batches if proving is not None else BATCHES
    if proving is not None and trial.landed and _ran_through(trial, proving):
        return Stable(f"{_batches(trial.landed)} landed, all that was available")
    if stream.blocked is None and trial.landed >= needed and late is None:
        return Stable(f"{_batches(trial.landed)} landed, lag under the limit")
    if proving is None:
        return Wait("it has not landed enough batches yet")
    lost = _lost(trial, proving, late)
    proving = _counted(trial, proving, lost)
    if lost is not None:
        return Wait(f"this time does not count: {lost}", proving)
    if trial.now < proving.until:
        return Wait(late or f"{trial.landed} of {_batches(needed)} landed", proving)
    took = span((trial.now - proving.since).total_seconds() - proving.lost_s)
    why = late or f"only {trial.landed} of {_batches(needed)} landed"
    if back is None:
        return Wait(f"{why} in {took}, and there is no generation to roll back to", proving)
    return TakeBack(back, f"in {took}: {why}")


def _ran_through(trial: Trial, proving: Proving) -> bool:
    """Whether it completed a run since the upgrade."""
    seen = trial.observation
    done = trial.scheduled and seen is not None and seen.query_state == "completed" and seen.at > proving.since
    return done and trial.stream.desired != "running"


def _lost(trial: Trial, proving: Proving, late: str | None) -> str | None:
    """Why the time since the last pass does not count, or None."""
    stream = trial.stream
    if stream.desired != "running":
        return "it is stopped"
    if stream.blocked is not None:
        return "it is blocked"
    if stream.hold_until is not None and stream.hold_until > trial.now:
        return "it is held"
    if trial.excused is not None:
        return trial.excused
    if late is None and trial.observation is not None and idle(trial.observation):
        return "no records came"
    if trial.now - (proving.looked or proving.since) > UNOBSERVED:
        return "no pass ran"
    return None


def _counted(trial: Trial, proving: Proving, lost: str | None) -> Proving:
    """The conditions after this pass."""
    passed = trial.now - (proving.looked or proving.since)
    if lost is None:
        return replace(proving, looked=trial.now)
    return replace(
        proving, looked=trial.now, until=proving.until + passed, lost_s=proving.lost_s + passed.total_seconds()
    )


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number:,} batches"


def _proving(trial: Trial) -> Proving | None:
    stored = trial.stream.proving
    proving = None if stored is None else Proving.of(stored)
    # Conditions of another generation are a leftover and do not apply.
    return proving if proving is not None and proving.generation == trial.stream.generation else None


def _late(trial: Trial) -> str | None:
    """Why its lag is over a limit, or None."""
    seen, limits = trial.observation, trial.limits
    if seen is None or trial.scheduled:
        return None
    waiting, behind_s = seen.least_records, seen.least_s
    if limits.lag_records is not None and waiting is not None and waiting > limits.lag_records:
        least = "at least " if seen.lag_records is None else ""
        return f"{least}{waiting:,} records wait, the limit is {limits.lag_records:,}"
    if waiting != 0 and behind_s is not None and behind_s > limits.freshness.seconds:
        return f"it is {span(behind_s)} behind its source, the limit is {limits.freshness}"
    return None
