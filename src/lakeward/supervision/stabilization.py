"""Stabilization: mark generations that land as stable, and roll back generations that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

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
        match stability.judge(trial):
            case Stable(why):
                stable.append((trial, why))
            case TakeBack() as back:
                done += _take_back(connection, trial, back)
            case Wait(proving=Proving() as counted):
                streams.count_proving(connection, trial.stream.id, trial.stream.proving, counted.stored())
    return [*done, *_stable(connection, stable)]


def trials(connection: Connection, facts: Facts) -> list[Trial]:
    """The running generations that are not stable yet, with the facts for the judgement."""
    open_ones = [item for item in facts.streams if _open(item, facts)]
    since = {item.id: (item.generation, Proving.of(item.proving).since if item.proving else None) for item in open_ones}
    needed = max([stability.BATCHES, *(Proving.of(item.proving).batches for item in open_ones if item.proving)])
    landed = batches.landed(connection, since, needed)
    stable = generations.last_stable(connection, {item.id: item.generation for item in open_ones})
    return [
        Trial(
            stream=item,
            generation=facts.generations[item.id],
            limits=facts.limits(item.id),
            observation=facts.observations.get(item.id),
            landed=landed.get(item.id, 0),
            last_stable=stable.get(item.id),
            now=facts.now,
            excused=facts.down.get(item.id) or facts.thrash,
            scheduled=facts.schedule(item.id) is not None,
        )
        for item in open_ones
    ]


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
