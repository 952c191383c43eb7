"""Stabilization: mark generations that land as stable, and roll back generations that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from lakeward.platform.boundary import Failure, attempt
from lakeward.registry import batches, changes, events, generations, streams
from lakeward.registry.streams import Stream
from lakeward.supervision.decide import stability
from lakeward.supervision.decide.stability import Proving, Stable, TakeBack, Trial, Wait
from lakeward.supervision.observe import Facts

AUTHOR = "reconcile"


@dataclass(frozen=True)
class GenerationResult:
    """The result for one generation: `act` is stable | taken-back."""

    stream: str
    act: str
    text: str


def stabilize(connection: Connection, facts: Facts) -> list[GenerationResult]:
    """Judge every generation that is not stable yet, and record the result."""
    done: list[GenerationResult] = []
    stable: list[tuple[Trial, str]] = []
    for trial in trials(connection, facts):
        name = f"generation of stream {trial.stream.id}"
        match attempt(name, partial(stability.judge, trial)):
            case Stable(why):
                stable.append((trial, why))
            case TakeBack() as back:
                taken = attempt(
                    name,
                    partial(_take_back, connection, trial, back),
                    through=(OperationalError,),
                    within=connection.begin_nested,
                )
                done += [] if isinstance(taken, Failure) else taken
            case Wait(proving=Proving() as counted):
                streams.count_proving(connection, trial.stream.id, trial.stream.proving, counted.stored())
    return [*done, *_stable(connection, stable)]


def trials(connection: Connection, facts: Facts) -> list[Trial]:
    """The running generations that are not stable yet, with the facts for the judgement."""
    open_ones: list[Stream] = []
    since: dict[str, tuple[int, datetime | None]] = {}
    needed = stability.BATCHES
    for item in facts.streams:
        if not _open(item, facts):
            continue
        conditions = attempt(f"generation of stream {item.id}", partial(_conditions, item))
        if isinstance(conditions, Failure):
            continue
        open_ones.append(item)
        since[item.id] = (item.generation, conditions[0])
        needed = max(needed, conditions[1])
    landed = batches.landed(connection, since, needed)
    stable = generations.last_stable(connection, {item.id: item.generation for item in open_ones})
    found = [
        attempt(
            f"generation of stream {item.id}",
            partial(_trial, facts, item, landed.get(item.id, 0), stable.get(item.id)),
        )
        for item in open_ones
    ]
    return [each for each in found if isinstance(each, Trial)]


def progress(connection: Connection, facts: Facts, stream: str) -> str | None:
    """How far the generation of one stream is from being stable, in words; None if nothing is left to prove."""
    for trial in trials(connection, facts):
        if trial.stream.id == stream and isinstance(judged := stability.judge(trial), Wait):
            return f"generation {trial.generation.generation}: {judged.why}"
    return None


def _trial(facts: Facts, stream: Stream, landed: int, last_stable: int | None) -> Trial:
    return Trial(
        stream=stream,
        generation=facts.generations[stream.id],
        limits=facts.limits(stream.id),
        observation=facts.observations.get(stream.id),
        landed=landed,
        last_stable=last_stable,
        now=facts.now,
        excused=facts.down.get(stream.id) or facts.thrash,
        scheduled=facts.schedule(stream.id) is not None,
    )


def _conditions(stream: Stream) -> tuple[datetime | None, int]:
    """Since when batches count for the stream's generation, and how many are needed."""
    if not stream.proving:
        return None, stability.BATCHES
    proving = Proving.of(stream.proving)
    return proving.since, proving.batches


def _open(stream: Stream, facts: Facts) -> bool:
    generation = facts.generations.get(stream.id)
    return generation is not None and (stream.proving is not None or generation.stable_at is None)


def _stable(connection: Connection, proven: Sequence[tuple[Trial, str]]) -> list[GenerationResult]:
    """Record the stable generations; after a first deployment these are many at once."""
    if not proven:
        return []
    numbers = {trial.stream.id: trial.generation.generation for trial, _ in proven}
    texts = {trial.stream.id: f"Generation {numbers[trial.stream.id]} is stable: {why}" for trial, why in proven}
    generations.mark_all_stable(connection, list(numbers.items()))
    for trial, _ in proven:
        if trial.stream.proving is not None:
            streams.set_proving(connection, trial.stream.id, None)
    lines = [(name, text, {"generation": numbers[name]}) for name, text in texts.items()]
    events.record_all(connection, "stream", "stable", lines)
    return [GenerationResult(name, "stable", text) for name, text in texts.items()]


def _take_back(connection: Connection, trial: Trial, back: TakeBack) -> list[GenerationResult]:
    stream, number = trial.stream, trial.generation.generation
    if not generations.restore(connection, stream.id, back.to, before=number):
        return []  # a person has chosen another generation since the facts were read
    generations.mark_failed(connection, stream.id, number, back.why)
    text = f"Generation {number} was rolled back to {back.to}: {back.why}"
    fields = {"before": number, "after": back.to, "why": back.why}
    events.record(connection, "stream", stream.id, "taken-back", text, **fields)
    changes.record(connection, "stream", stream.id, "rollback", author=AUTHOR, comment=back.why, **fields)
    return [GenerationResult(stream.id, "taken-back", text)]
