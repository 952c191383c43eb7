"""Compatibility of a checkpoint with the query that is to run on it. Pure.

Spark checks very little of it: offsets are passed to whatever source now has the same index, and options frozen in the
checkpoint silently replace those of the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.kafka import position as kafka
from lakeward.engine.checkpoint.layout import Checkpoint, Operator
from lakeward.engine.checkpoint.preflight import Finding, Verdict

PARTITIONS, PROVIDER = "spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore.providerClass"
_OF_STATE = (PARTITIONS, PROVIDER)
"""Options in a checkpoint that a query without state does not use."""


@dataclass(frozen=True)
class SourceNow:
    """A source of the current spec. `topics` is empty if they are given by a pattern."""

    name: str
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Query:
    """The query that is to run; `sources` in its order. `continuous`: by continuous processing."""

    sources: Sequence[SourceNow]
    stateful: bool
    continuous: bool = False


def judge(stream: str, checkpoint: Checkpoint, position: Position | None, query: Query) -> Verdict | None:
    """Why the query cannot run on the checkpoint; None if it can."""
    if checkpoint.newest >= 0:
        found = (
            _passed(stream, checkpoint, query)
            or _shape(stream, checkpoint, query)
            or _sources(stream, checkpoint, query)
        )
        if found is not None:
            return found
        if query.stateful:
            found = _state(stream, checkpoint)
            if found is not None:
                return found
    return _names(stream, position, query) if position is not None else None


def notes(checkpoint: Checkpoint, query: Query, configured: Mapping[str, str | None]) -> list[str]:
    """Notes for people on a checkpoint that can be used: frozen options, new topics, missing files.

    Args:
        configured: the options of the stream's session.
    """
    if checkpoint.newest < 0:
        return []
    found = []
    for name, frozen in sorted(checkpoint.conf.items()):
        value = configured.get(name)
        if value is not None and value != frozen and (query.stateful or name not in _OF_STATE):
            found.append(f"{name} stays {frozen}: the checkpoint has frozen it; {value} takes effect after reset")
    entry = checkpoint.offsets[checkpoint.newest]
    for source, end in zip(query.sources, entry.ends, strict=False):
        new = sorted(source.topics - topics_of(end)) if topics_of(end) else []
        if new:
            found.append(
                f"source {source.name} reads {', '.join(new)} from the beginning: the checkpoint does not know it"
            )
    if checkpoint.missing:
        missing = ", ".join(str(number) for number in checkpoint.missing[:5])
        found.append(
            f"{checkpoint.folder}/offsets lacks {missing}: Spark does not read them again, but somebody removed them"
        )
    return found


def topics_of(end: str) -> frozenset[str]:
    """The topics of an offset; none for a source without data yet or of another kind."""
    if end == NO_DATA or not end.startswith("{"):
        return frozenset()
    try:
        return frozenset(kafka.parse(end))
    except (ValueError, AttributeError, TypeError):
        return frozenset()


def _sources(stream: str, checkpoint: Checkpoint, query: Query) -> Verdict | None:
    ends = checkpoint.offsets[checkpoint.newest].ends
    file = f"{checkpoint.folder}/offsets/{checkpoint.newest}"
    if len(ends) != len(query.sources):
        return _changed(
            stream,
            f"{file} has offsets of {len(ends)} sources, the spec has {len(query.sources)}: "
            f"{', '.join(source.name for source in query.sources)}",
        )
    for index, (source, end) in enumerate(zip(query.sources, ends, strict=True)):
        held = topics_of(end)
        if not source.topics or held <= source.topics:
            continue
        other = next((candidate.name for candidate in query.sources if held <= candidate.topics), None)
        dropped = ", ".join(sorted(held - source.topics))
        if other is not None:
            why = f"line {index + 1} of {file} belongs to source {other}, and {source.name} has its place: each would "
            return _changed(stream, why + "continue at the other's offsets")
        return _changed(
            stream,
            f"source {source.name} no longer reads {dropped}, which {file} has offsets of: "
            "its remaining records would never land",
        )
    return None


def _names(stream: str, position: Position, query: Query) -> Verdict | None:
    """The table's position has its sources by name."""
    now, held = sorted(source.name for source in query.sources), sorted(position.end)
    if held == now:
        return None
    why = f"the table's position (seq {position.seq}) has sources {', '.join(held)}; the spec has {', '.join(now)}"
    return _changed(stream, why)


def _changed(stream: str, why: str) -> Verdict:
    return Verdict(
        Finding.SOURCES,
        f"The sources of stream {stream} are not those of its checkpoint",
        why,
        f"put the sources back as they were in conf/streams/{stream}.yaml and lakeward deploy; "
        "or give the stream a new id and a new table",
    )


def _passed(stream: str, checkpoint: Checkpoint, query: Query) -> Verdict | None:
    """Continuous processing does not write the metadata that batches need: Spark would fail at each restart."""
    if query.continuous or not checkpoint.offsets[checkpoint.newest].continuous:
        return None
    return Verdict(
        Finding.SHAPE,
        f"The checkpoint of stream {stream} was written by continuous processing",
        f"{checkpoint.folder}/offsets/{checkpoint.newest} has no metadata: micro-batches cannot continue from it",
        f"write trigger: {{continuous: 1s}} again in conf/streams/{stream}.yaml, then: lakeward deploy; or give the "
        "stream a new id with starting_offsets where this one ended",
    )


def _shape(stream: str, checkpoint: Checkpoint, query: Query) -> Verdict | None:
    """A query that starts or stops keeping state: Spark would begin with empty state, or silently ignore the state."""
    if checkpoint.committed < 0 or query.stateful == bool(checkpoint.state):
        return None
    if query.stateful:
        why = f"{checkpoint.folder} has finished {checkpoint.committed + 1} batches and no state: it was removed, or "
        why += "the transform had none before; counts and windows would begin at zero"
    else:
        why = f"{checkpoint.folder}/state holds state of {len(checkpoint.state)} operators, and the transform has none "
        why += "any more: rows of windows that are still open would never land"
    return Verdict(
        Finding.SHAPE,
        f"The transform of stream {stream} {'keeps state' if query.stateful else 'keeps no state'}, "
        f"its checkpoint {'has none' if query.stateful else 'has some'}",
        why,
        f"put {checkpoint.folder}/state back from a copy, or the transform back as it was "
        f"(conf/streams/{stream}.yaml, lakeward deploy); or give the stream a new id and a new table",
    )


def _state(stream: str, checkpoint: Checkpoint) -> Verdict | None:
    needed = checkpoint.committed + 1
    for operator in checkpoint.state:
        missing = _missing(operator)
        if missing and needed:
            return _damaged(stream, checkpoint, f"state/{operator.number}/{missing[0]}", "it is missing")
        for store in operator.stores:
            if not store.holds(needed):
                held = max(store.snapshots | store.changes, default=0)
                why = f"batch {needed} needs version {needed}; its files hold " + (
                    f"versions up to {held}" if held < needed else "not all versions before it"
                )
                return _damaged(stream, checkpoint, f"state/{store.name}", why)
    return None


def _missing(operator: Operator) -> list[int]:
    count = operator.declared if operator.declared is not None else max(operator.partitions, default=-1) + 1
    return [number for number in range(count) if number not in operator.partitions]


def _damaged(stream: str, checkpoint: Checkpoint, file: str, why: str) -> Verdict:
    return Verdict(
        Finding.STATE,
        f"The state of stream {stream} is damaged",
        f"{checkpoint.folder}/{file}: {why}",
        "put the whole checkpoint back from one copy (state and offsets belong together); or give the stream a new id "
        f"and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
    )
