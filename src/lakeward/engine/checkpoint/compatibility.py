"""Does a checkpoint fit the stream that is to run on it? Pure.

Spark compares next to nothing: a source's offsets are handed to whatever source now stands in its place, a frozen
option is taken from the checkpoint without a word, and a second stream on the same folder is found out by a crash.
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
"""What a query without state does not read from the checkpoint, although it stands there."""


@dataclass(frozen=True)
class SourceNow:
    """A source as the spec has it now. `topics` is empty where they are given by a pattern."""

    name: str
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Query:
    """The query that is to run, in the order it reads its sources. `continuous`: by continuous processing."""

    sources: Sequence[SourceNow]
    stateful: bool
    continuous: bool = False


def judge(stream: str, checkpoint: Checkpoint, position: Position | None, query: Query) -> Verdict | None:
    """What keeps the query from running on the checkpoint; None if nothing does."""
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


def notes(checkpoint: Checkpoint, query: Query, wanted: Mapping[str, str | None]) -> list[str]:
    """What a person should know though the stream may run: frozen options, new topics, files that are missing.

    Args:
        wanted: the options as the stream's session has them.
    """
    if checkpoint.newest < 0:
        return []
    found = []
    for name, frozen in sorted(checkpoint.conf.items()):
        asked = wanted.get(name)
        if asked is not None and asked != frozen and (query.stateful or name not in _OF_STATE):
            found.append(f"{name} stays {frozen}: the checkpoint has frozen it; {asked} takes effect after reset")
    entry = checkpoint.offsets[checkpoint.newest]
    for source, end in zip(query.sources, entry.ends, strict=False):
        new = sorted(source.topics - topics_of(end)) if topics_of(end) else []
        if new:
            found.append(
                f"source {source.name} reads {', '.join(new)} from the beginning: the checkpoint does not know it"
            )
    if checkpoint.missing:
        gone = ", ".join(str(number) for number in checkpoint.missing[:5])
        found.append(
            f"{checkpoint.folder}/offsets lacks {gone}: Spark does not read them again, but nobody removes them"
        )
    return found


def topics_of(end: str) -> frozenset[str]:
    """The topics an offset speaks of; none for a source without data yet or of another kind."""
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
        other = next((each.name for each in query.sources if held <= each.topics), None)
        gone = ", ".join(sorted(held - source.topics))
        if other is not None:
            why = f"line {index + 1} of {file} is source {other}'s, and {source.name} stands in its place: each would "
            return _changed(stream, why + "go on at the other's offsets")
        return _changed(
            stream,
            f"source {source.name} no longer reads {gone}, which {file} has offsets of: "
            "what was not landed from it would never be",
        )
    return None


def _names(stream: str, position: Position, query: Query) -> Verdict | None:
    """The table's position knows its sources by name."""
    now, held = sorted(source.name for source in query.sources), sorted(position.end)
    if held == now:
        return None
    why = f"the table's position (seq {position.seq}) is that of {', '.join(held)}; the spec has {', '.join(now)}"
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
    """Continuous processing leaves out what batches need to go on: Spark dies of it at each restart."""
    if query.continuous or not checkpoint.offsets[checkpoint.newest].continuous:
        return None
    return Verdict(
        Finding.SHAPE,
        f"The checkpoint of stream {stream} is one of continuous processing",
        f"{checkpoint.folder}/offsets/{checkpoint.newest} has no metadata: Spark's batches cannot go on from it",
        f"write trigger: {{continuous: 1s}} again in conf/streams/{stream}.yaml, then: lakeward deploy; or give the "
        "stream a new id with starting_offsets where this one ended",
    )


def _shape(stream: str, checkpoint: Checkpoint, query: Query) -> Verdict | None:
    """State that comes or goes between two batches: Spark would begin it empty, or leave what it holds unsaid."""
    if checkpoint.committed < 0 or query.stateful == bool(checkpoint.state):
        return None
    if query.stateful:
        why = f"{checkpoint.folder} has finished {checkpoint.committed + 1} batches and no state: it was removed, or "
        why += "the transform had none before; counts and windows would begin at nothing"
    else:
        why = f"{checkpoint.folder}/state holds state of {len(checkpoint.state)} operators, and the transform has none "
        why += "any more: what waits there for its window to close would never land"
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
        lost = _lost(operator)
        if lost and needed:
            return _damaged(stream, checkpoint, f"state/{operator.number}/{lost[0]}", "it is absent")
        for store in operator.stores:
            if not store.holds(needed):
                held = max(store.snapshots | store.changes, default=0)
                why = f"batch {needed} needs version {needed}; its files hold " + (
                    f"versions up to {held}" if held < needed else "not all that lead to it"
                )
                return _damaged(stream, checkpoint, f"state/{store.name}", why)
    return None


def _lost(operator: Operator) -> list[int]:
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
