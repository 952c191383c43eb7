"""The deploy plan: compares the accepted generations with the project's specs. Pure.

A checkpoint contains more than offsets: the sources, the shape of the state and some settings. The plan reports a
change of these before anything is changed, because Spark usually notices too late or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import ValidationError

from lakeward.spec.checks.spark_conf import FROZEN
from lakeward.spec.deploy import state_compatibility
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.types import SparkKey
from lakeward.spec.sql.analysis import SqlFacts, analyse, joins_streams
from lakeward.spec.sql.statements import SqlProblem

ChangeKind = Literal["new", "changed", "removed", "same"]
Act = Literal["accept", "pend", "adopt", "drop-pending", "none"]


@dataclass(frozen=True)
class Accepted:
    """A stream in the registry.

    Attributes:
        generation, spec, digest: the accepted generation, whose checkpoint the stream has.
        newest, newest_digest: the newest generation; differs from the accepted one while an upgrade is pending.
        pending: the pending generation, if any.
        should_run: whether the stream runs or should run.
        retired: its file was removed and it was retired; its checkpoint and its position are still there.
    """

    generation: int
    spec: Mapping[str, Any]
    digest: str
    newest: int
    newest_digest: str
    pending: int | None
    should_run: bool
    retired: bool = False


@dataclass(frozen=True)
class Change:
    """The effect of a deploy on one stream.

    Attributes:
        checkpoint_compatible: whether the accepted generation's checkpoint can be continued; None if that does not
            apply (new, removed) or cannot be decided.
        why: what differs, and the consequence, as a sentence.
        generation: the generation of the project's spec after the deploy.
        act: `accept` (run the new generation), `pend` (the new one becomes pending), `adopt` (run the pending one),
            `drop-pending` (the file equals the accepted generation again), `none`.
    """

    stream: str
    change: ChangeKind
    checkpoint_compatible: bool | None
    why: str
    generation: int
    act: Act

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
    """Hash of a generation's content: the resolved spec with its SQL text, and digests of code."""
    text = json.dumps([spec.document(), dict(code or {})], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plan(accepted: Mapping[str, Accepted], specs: Mapping[str, StreamSpec]) -> list[Change]:
    """One change per stream, by id; a retired stream counts only if it is declared again."""
    names = {name for name, known in accepted.items() if not known.retired} | set(specs)
    return [_change(name, accepted.get(name), specs.get(name)) for name in sorted(names)]


def _change(name: str, known: Accepted | None, spec: StreamSpec | None) -> Change:
    if spec is None:
        return _removed(name, known)
    if known is None:
        by = (
            "it will be started"
            if spec.trigger.schedule is None
            else f"its schedule starts it: {spec.trigger.schedule}"
        )
        why = by if spec.enabled else "enabled: false, so it is not started"
        return Change(name, "new", None, why, 1, "accept")
    hint = _stop_hint(name, known, spec)
    digest_ = digest(spec)
    if known.retired:
        return _back(name, known, spec, digest_)
    if known.digest == digest_:
        act: Act = "none" if known.pending is None else "drop-pending"
        dropped = f"generation {known.pending} no longer waits: the file is again what was accepted"
        notes = [dropped] if known.pending is not None else []
        return Change(name, "same", True, _joined(*notes, hint) or "nothing differs", known.generation, act)
    return _changed(name, known, spec, digest_, hint)


def _removed(name: str, known: Accepted | None) -> Change:
    if known is None:
        raise ValueError(f"stream {name} is neither known nor declared")
    now = "it continues as deployed; to end and retire it" if known.should_run else "it is stopped; to retire it"
    why = f"its file is missing; {now}: lakeward deploy --retire {name}"
    return Change(name, "removed", None, why, known.generation, "none")


def _changed(name: str, known: Accepted, spec: StreamSpec, digest_: str, hint: str | None) -> Change:
    waits_already = known.pending is not None and known.newest_digest == digest_
    generation = known.newest if waits_already else known.newest + 1
    try:
        before = StreamSpec.model_validate(dict(known.spec))
    except ValidationError:
        why = "the accepted spec is of another version of Lakeward; whether its checkpoint fits cannot be decided"
        return Change(name, "changed", None, why, generation, "none" if waits_already else "pend")
    obstacles = list(checkpoint_obstacles(before, spec))
    if obstacles:
        then = "the checkpoint cannot be continued, so it waits; give the changed stream another id to start it afresh"
        why = _joined(*obstacles, then, hint)
        return Change(name, "changed", False, why, generation, "none" if waits_already else "pend")
    what = "changed: " + ", ".join(differences(before, spec))
    fits: bool | None = True
    if None in (keeps_state(before), keeps_state(spec)) and before.transform != spec.transform:
        fits, what = None, f"{what}; whether state of Python code still fits is checked at the start"
    if known.should_run:
        then = f"upgrade pending, what runs is not touched; to take it: lakeward streams upgrade {name} --wait"
        return Change(name, "changed", fits, _joined(what, then, hint), generation, "none" if waits_already else "pend")
    then = "the next start takes it"
    return Change(name, "changed", fits, _joined(what, then), generation, "adopt" if waits_already else "accept")


def _back(name: str, known: Accepted, spec: StreamSpec, digest_: str) -> Change:
    change = _changed(name, replace(known, should_run=False, pending=None), spec, digest_, None)
    if known.digest == digest_:
        why = "it was retired and is declared again: it continues where it stopped"
        return Change(name, "new", True, why, known.generation, "adopt")
    if change.act == "accept":
        return replace(change, change="new", why=f"it was retired and is declared again; {change.why}")
    why = f"it was retired and cannot be declared again like this; {change.why}"
    return replace(change, change="new", act="none", why=why)


def _joined(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)


def _stop_hint(name: str, known: Accepted, spec: StreamSpec) -> str | None:
    # Only an operation of a person stops a stream, never a file.
    if known.should_run and not spec.enabled:
        return f"enabled: false, but it still runs: lakeward streams stop {name}"
    return None


def differences(before: StreamSpec, after: StreamSpec) -> list[str]:
    """Top-level keys whose values differ."""
    old, new = before.document(), after.document()
    return [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]


def checkpoint_obstacles(before: StreamSpec, after: StreamSpec) -> Iterator[str]:
    """Reasons why `after` cannot continue the checkpoint of `before`; none if it can."""
    yield from _sources(before, after)
    if (before.sink.connector, before.sink.label, before.sink.rows_in) != (
        after.sink.connector, after.sink.label, after.sink.rows_in,
    ):  # fmt: skip
        yield f"the sink moves from {before.sink.label} to {after.sink.label}; the position stays behind in the old one"
    if before.sink.mode != after.sink.mode:
        yield f"the mode changes from {before.sink.mode} to {after.sink.mode}"
    if before.trigger.continuous is not None and after.trigger.continuous is None:
        why = "Spark's batches cannot continue from its checkpoint"
        yield f"the trigger changes from continuous to {after.trigger.kind}: {why}"
    yield from _state(before, after)


def _sources(before: StreamSpec, after: StreamSpec) -> Iterator[str]:
    removed = [name for name in before.sources if name not in after.sources]
    added = [name for name in after.sources if name not in before.sources]
    if removed or added:
        parts = [f"{word} {', '.join(names)}" for word, names in (("loses", removed), ("gets", added)) if names]
        yield f"the set of sources {' and '.join(parts)}"
        return
    if _read_order(before) != _read_order(after):
        yield "the SQL reads the sources in another order, and a checkpoint counts them by place"
    for name, old in before.sources.items():
        new = after.sources[name]
        if old.connector != new.connector:
            yield f"source {name} changes from {old.connector} to {new.connector}"
        elif old.kafka and new.kafka:
            if old.kafka.connection != new.kafka.connection:
                yield f"source {name} reads another connection: offsets of one broker are not valid on another"
            missing = set(old.kafka.topics) - set(new.kafka.topics)
            if missing or bool(old.kafka.pattern) != bool(new.kafka.pattern):
                yield f"source {name} no longer reads {', '.join(sorted(missing)) or 'the same kind of topics'}"
        elif old.files and new.files:
            if (old.files.path, old.files.format) != (new.files.path, new.files.format):
                yield f"source {name} reads other files: {new.files.path} ({new.files.format})"
        elif old.from_table is not None:
            if old.from_table != new.from_table:  # rate limits, skips and the starting point may change
                yield f"source {name} reads another table: {new.from_table}"
        elif old.options != new.options:
            yield f"source {name} is another {old.connector}"


def _state(before: StreamSpec, after: StreamSpec) -> Iterator[str]:
    stateful = keeps_state(before), keeps_state(after)
    may = stateful[0] is not False and stateful[1] is not False
    old_conf, new_conf = {**before.spark}, {**after.spark}
    for key in map(SparkKey, FROZEN):
        old, new = old_conf.get(key, "its default"), new_conf.get(key, "its default")
        if old != new and may:
            yield f"{key} changes from {old} to {new}, but the checkpoint keeps the old value"
    if may and before.state.provider != after.state.provider:
        yield "the state provider changes, but the checkpoint keeps the old one"
    if stateful == (True, True):
        yield from state_compatibility.changes(before, after, _facts(before), _facts(after))
    elif None not in stateful and stateful[0] != stateful[1]:
        yield "the query gains state" if stateful[1] else "the query loses its state"


def _facts(spec: StreamSpec) -> SqlFacts | None:
    try:
        return analyse(spec.transform.sql, spec.sources) if spec.transform.sql else None
    except SqlProblem:
        return None


def _read_order(spec: StreamSpec) -> list[str]:
    """The sources in the order the SQL reads them: each is one line of the checkpoint's offset files."""
    facts = _facts(spec)
    if facts is None or len(spec.sources) == 1:
        return list(spec.sources) if len(spec.sources) == 1 else []
    names = {name.lower() for name in spec.sources}
    reads = sorted(facts.reads, key=lambda read: (read.line or 0, read.column or 0))
    return list(dict.fromkeys(read.name.lower() for read in reads if read.name.lower() in names))


def keeps_state(spec: StreamSpec) -> bool | None:
    """Whether its query keeps state, by its SQL; None for Python, where only Spark's plan shows it."""
    if any(source.deduplicate for source in spec.sources.values()):
        return True
    if spec.transform.python is not None:
        return None
    facts = _facts(spec)
    return facts is not None and (facts.groups is not None or joins_streams(facts, spec.sources))
