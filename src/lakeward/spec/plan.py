"""What `deploy` would do: the accepted generations against the project's specs. Pure.

A checkpoint remembers more than its offsets: the sources, the shape of the state and some settings. A change of one of
these is told here, before anything is touched, because Spark mostly notices too late or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lakeward.spec.analysis import analyse, pretty
from lakeward.spec.spark_conf import FROZEN
from lakeward.spec.sql import SqlProblem
from lakeward.spec.stream import StreamSpec

ChangeKind = Literal["new", "changed", "removed", "same"]


@dataclass(frozen=True)
class Accepted:
    """What the registry knows of a stream: its newest generation and whether it runs."""

    generation: int
    spec: Mapping[str, Any]
    digest: str
    wanted: bool


@dataclass(frozen=True)
class Change:
    """What a deploy makes of one stream.

    Attributes:
        checkpoint_compatible: whether the running query's checkpoint can be continued; None where there is none.
        why: what differs, and what follows, in words.
        generation: the generation the stream has after the deploy.
        apply: `accept` (the new generation is the one to run), `pend` (it waits for `upgrade`), `none`.
    """

    stream: str
    change: ChangeKind
    checkpoint_compatible: bool | None
    why: str
    generation: int
    apply: Literal["accept", "pend", "none"]

    def document(self) -> dict[str, Any]:
        """The change as the command line's JSON."""
        return {
            "stream": self.stream,
            "change": self.change,
            "checkpoint_compatible": self.checkpoint_compatible,
            "why": self.why,
            "generation": self.generation,
        }


def digest(spec: StreamSpec, code: Mapping[str, str] | None = None) -> str:
    """Hash of everything that makes a generation: the resolved spec with its SQL text, and digests of code."""
    text = json.dumps([spec.document(), dict(code or {})], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plan(accepted: Mapping[str, Accepted], specs: Mapping[str, StreamSpec]) -> list[Change]:
    """One change a stream, by id."""
    return [_change(name, accepted.get(name), specs.get(name)) for name in sorted({*accepted, *specs})]


def _change(name: str, known: Accepted | None, spec: StreamSpec | None) -> Change:
    if spec is None:
        if known is None:
            raise ValueError(f"stream {name} is neither known nor declared")
        goes_on = "it goes on running as deployed; to end it: " if known.wanted else "it is stopped; to retire it: "
        why = f"its file is gone; {goes_on}lakeward deploy --retire {name}"
        return Change(name, "removed", None, why, known.generation, "none")
    if known is None:
        why = "it will be started" if spec.enabled else "enabled: false, so it is not started"
        return Change(name, "new", None, why, 1, "accept")
    if known.digest == digest(spec):
        return Change(name, "same", True, _stop_hint(name, known, spec) or "nothing differs", known.generation, "none")
    before = StreamSpec.model_validate(dict(known.spec))
    obstacles = list(checkpoint_obstacles(before, spec))
    what = "; ".join(obstacles) if obstacles else "changed: " + ", ".join(differences(before, spec))
    pend = known.wanted
    then = f"upgrade pending: lakeward streams upgrade {name}" if pend else "the next start takes it"
    if obstacles:
        then = f"the checkpoint cannot be continued: lakeward streams reset {name}"
    parts = [what, then, _stop_hint(name, known, spec)]
    why = "; ".join(part for part in parts if part)
    return Change(name, "changed", not obstacles, why, known.generation + 1, "pend" if pend or obstacles else "accept")


def _stop_hint(name: str, known: Accepted, spec: StreamSpec) -> str | None:
    # A file never stops a stream: only a person's operation does.
    if known.wanted and not spec.enabled:
        return f"enabled: false, but it still runs: lakeward streams stop {name}"
    return None


def differences(before: StreamSpec, after: StreamSpec) -> list[str]:
    """Top-level keys whose values differ."""
    old, new = before.document(), after.document()
    return [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]


def checkpoint_obstacles(before: StreamSpec, after: StreamSpec) -> Iterator[str]:
    """Why the checkpoint of `before` cannot be continued by `after`; nothing when it can."""
    yield from _sources(before, after)
    if (before.sink.connector, before.sink.label) != (after.sink.connector, after.sink.label):
        yield f"the sink moves from {before.sink.label} to {after.sink.label}; the position stays behind in the old one"
    if before.sink.mode != after.sink.mode:
        yield f"the mode changes from {before.sink.mode} to {after.sink.mode}"
    yield from _state(before, after)


def _sources(before: StreamSpec, after: StreamSpec) -> Iterator[str]:
    gone = [name for name in before.sources if name not in after.sources]
    come = [name for name in after.sources if name not in before.sources]
    if gone or come:
        parts = [f"{word} {', '.join(names)}" for word, names in (("loses", gone), ("gets", come)) if names]
        yield f"the set of sources {' and '.join(parts)}"
        return
    if list(before.sources) != list(after.sources):
        yield "the sources stand in another order, and a checkpoint counts them by place"
    for name, old in before.sources.items():
        new = after.sources[name]
        if old.connector != new.connector:
            yield f"source {name} changes from {old.connector} to {new.connector}"
        elif old.kafka and new.kafka:
            if old.kafka.connection != new.kafka.connection:
                yield f"source {name} reads another connection: offsets of one broker mean nothing on another"
            missing = set(old.kafka.topics) - set(new.kafka.topics)
            if missing or bool(old.kafka.pattern) != bool(new.kafka.pattern):
                yield f"source {name} no longer reads {', '.join(sorted(missing)) or 'the same kind of topics'}"
        elif old.options != new.options:
            yield f"source {name} is another {old.connector}"


def _state(before: StreamSpec, after: StreamSpec) -> Iterator[str]:
    for key in FROZEN:
        if before.spark.get(key) != after.spark.get(key) and (_stateful(before) or _stateful(after)):
            yield (
                f"{key} changes from {before.spark.get(key, 'its default')} to {after.spark.get(key, 'its default')}, "
                "but the checkpoint keeps the old value"
            )
    if before.state.provider != after.state.provider and _stateful(before):
        yield "the state provider changes, but the checkpoint keeps the old one"
    if _stateful(before) != _stateful(after):
        yield "the query gains state" if _stateful(after) else "the query loses its state"
    elif _stateful(before) and _shape(before) != _shape(after):
        yield "the SQL of a query with state changes; its state would not fit"


def _stateful(spec: StreamSpec) -> bool:
    if any(source.deduplicate for source in spec.sources.values()):
        return True
    if not spec.transform.sql:
        return False
    try:
        facts = analyse(spec.transform.sql)
    except SqlProblem:
        return False
    streams = {read.name.lower() for read in facts.reads} & {name.lower() for name in spec.sources}
    return facts.groups is not None or (len(streams) > 1 and " join " in f" {spec.transform.sql.lower()} ")


def _shape(spec: StreamSpec) -> object:
    # Layout, comments and what is only read from the group do not matter to state; anything else may.
    sources = {
        name: (source.decode, source.watermark.column if source.watermark else None, source.deduplicate)
        for name, source in spec.sources.items()
    }
    return pretty(spec.transform.sql) if spec.transform.sql else spec.transform.python, sources
