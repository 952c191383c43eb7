"""Remedy: the next command for a stream, from its state, its block, its shape and its supervision. Pure.

The on-call block, the incidents and the waiting commands all ask here. A command that the stream's shape refuses is not
offered, a generation that waits is named where the running one cannot go on, and the last step of several is told: a
start is part of each way that does not start the stream by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.platform.text import word
from lakeward.supervision.decide.health import State
from lakeward.supervision.decide.stability import OF_THE_GENERATION
from lakeward.supervision.presence import Presence
from lakeward.supervision.presence import State as Supervised

if TYPE_CHECKING:
    from lakeward.spec.model.stream import StreamSpec

OF_THE_TABLE = frozenset({
    "rolled-back", "table-replaced", "table-renamed", "table-missing", "no-position", "position-unreadable", "unstaged",
    "wap-off", "no-domains", "commit-overwritten", "unlogged", "property-unreadable",
})  # fmt: skip
"""Reasons of a block that the table itself can answer again."""
_MOVES = {"streams recover": "recover", "streams skip-batch": "skip a batch of", "streams reset": "reset"}
_ENDS = re.compile(
    r"lakeward (?:streams (?:start|upgrade|recover|restart|reset|skip-batch|rollback|audit|status)|deploy|stack status)"
)
"""Commands that start the stream themselves, or only read: no start follows them."""
_OTHER_STREAM = re.compile(r"\bnew (?:id|table)\b|another id|\bthe id \S+ again\b")
_OF_THE_SOURCE = frozenset({"source-expired", "topic-added-late"})
"""Reasons that no checkpoint ends: the source has no longer what comes next."""
PUT_BACK = frozenset({"no-position", "position-unreadable"})
"""Reasons after which `recover` puts the position of an Iceberg table back: possible for every shape of a stream."""
_WAYS = re.compile(r"(?:;|,) or:? ")

_WAITS = frozenset({State.STARTING, State.RESTARTING, State.STALLED})
"""States that end by themselves when a dependency answers again: no start helps before."""

SUPERVISED = Presence(Supervised.OK)


@dataclass(frozen=True)
class Situation:
    """What the next step depends on.

    Attributes:
        blocked: why it is blocked, as stored; None if it is not.
        spec: of the generation it runs; None if this version cannot read it.
        pending: the generation that waits for an upgrade; None without one.
        cured: whether the table, asked now, has everything that the block missed.
        table_next: the next command by the table as it is now, if a batch may not land there.
        quarantine_next: the ways to go on without its quarantine table, which is missing; None if it is there.
        paused: the table whose rewrite the stream waits for; None if it does not wait.
        held: until when automatic restarts are held, in words; None if they are not.
        late: why records are late (`Facts.late`); None if few are.
        awaited: what people have to make before a start can succeed, e.g. a topic; None if nothing is missing.
        down: its dependency that does not answer, in words; None if all answer.
        down_next: the command that asks it again.
        deleted: topics that it has landed from and that are missing; empty if none is.
    """

    stream: str
    state: State
    blocked: Mapping[str, Any] | None = None
    spec: StreamSpec | None = None
    pending: int | None = None
    presence: Presence = SUPERVISED
    cured: bool = False
    table_next: str | None = None
    quarantine_next: str | None = None
    paused: str | None = None
    held: str | None = None
    late: str | None = None
    awaited: str | None = None
    down: str | None = None
    down_next: str = "lakeward stack status"
    deleted: str = ""


@dataclass(frozen=True)
class Remedy:
    """The next step.

    Attributes:
        command: the command to run; None if nothing is to be done.
        text: the step in a sentence, with the command if there is one.
        acts: the part of the text whose effect is explained; empty if nothing is to be done.
    """

    command: str | None
    text: str
    acts: str = ""


def remedy(seen: Situation) -> Remedy:
    """The next step for one stream."""
    step = _of_state(seen)
    if not seen.presence.missing or seen.state in (State.STOPPED, State.STOPPING, State.COMPLETED):
        return step
    supervise = f"and since supervision is missing (a failure would not restart it): {seen.presence.next}"
    helped = seen.state in (State.HEALTHY, State.LAGGING) and step.command is not None  # e.g. it drops late records
    if seen.state is State.BLOCKED or helped:
        return Remedy(step.command, f"{step.text}; {supervise}", step.acts)
    if seen.state in (State.HEALTHY, State.LAGGING):
        command = seen.presence.next
        return Remedy(command, f"{command}   because supervision is missing: a failure would not restart it", command)
    if seen.state is State.UNKNOWN:
        return step
    if (seen.deleted and seen.state is State.RESTARTING) or (seen.down is not None and seen.state in _WAITS):
        return Remedy(step.command, f"{step.text}; {supervise}", step.acts)
    command = f"lakeward streams {'restart' if seen.state is State.STALLED else 'start'} {seen.stream} --wait"
    first = f"{seen.awaited}; then: {command}" if seen.awaited is not None else command
    return Remedy(command, f"{first}; {supervise}", command)


def _of_state(seen: Situation) -> Remedy:
    name, state = seen.stream, seen.state
    if seen.blocked is not None:
        command = of_block(
            name, seen.blocked, spec=seen.spec, pending=seen.pending, cured=seen.cured, table_next=seen.table_next
        )
        return Remedy(command, command, command)
    if state is State.RESTARTING and seen.held is not None:
        start = f"lakeward streams start {name} --wait"
        return Remedy(start, f"{start}   lifts the hold: nothing restarts it before {seen.held}", start)
    if state in _WAITS and seen.down is not None:
        text = f"{seen.down_next}   it starts by itself when this is over: {seen.down}"
        return Remedy(seen.down_next, text, seen.down_next)
    if state is State.RESTARTING and seen.deleted:
        return _of_deleted(name, seen.deleted, seen.spec)
    if state is State.RESTARTING and seen.awaited is not None:
        start = f"lakeward streams start {name}"
        return Remedy(f"lakeward streams logs {name}", f"{seen.awaited}; to start it at once then: {start}", start)
    if state is State.RESTARTING:
        start = f"lakeward streams start {name}"
        return Remedy(
            f"lakeward streams logs {name}", f"wait for the automatic restart; to restart it now: {start}", start
        )
    if state is State.STALLED:
        command = f"lakeward streams restart {name} --wait"
        return Remedy(command, command, command)
    if state is State.UNKNOWN:
        command = "lakeward stack status"
        kill = f"lakeward streams restart {name} --kill"
        text = f"{command}; nothing is restarted while its state is unknown; if its host is gone for good: {kill}"
        return Remedy(command, text, command)
    if seen.quarantine_next is not None and state in (State.HEALTHY, State.LAGGING):
        return Remedy(seen.quarantine_next, seen.quarantine_next, seen.quarantine_next)
    if seen.down is not None and state in (State.HEALTHY, State.LAGGING):
        return Remedy(seen.down_next, f"{seen.down_next}   shows whether this is over: {seen.down}", seen.down_next)
    if seen.paused is not None and state in (State.HEALTHY, State.LAGGING):
        command = f"lakeward tables why {word(seen.paused)}"
        return Remedy(
            command,
            f"it continues by itself after the rewrite of its table; to see what the rewrite waits for: {command}",
            command,
        )
    if state is State.LAGGING and seen.late is not None:
        return _of_late(name, seen.late)
    if state is State.LAGGING:
        text = (
            "watch the trend; if it grows: more cores or a larger max_offsets_per_trigger in "
            f"conf/streams/{name}.yaml, then: lakeward deploy; lakeward streams upgrade {name} --wait"
        )
        return Remedy(None, text, "a file")
    if state is State.STOPPED:
        command = f"lakeward streams start {name}"
        return Remedy(command, command, command)
    return Remedy(None, "nothing to do")


def _of_deleted(stream: str, topics: str, spec: StreamSpec | None) -> Remedy:
    """The step for a stream that has landed from a topic which was deleted: one of the same name is another topic."""
    other = "if these are other brokers than before, correct the connection, and it starts by itself"
    text = (
        f"{_for_sink(new_id(stream), spec)}   because it has landed from topic {topics}, which was deleted: one "
        f"that is created again has other records at the same offsets, and blocks the stream; or {other}"
    )
    return Remedy(f"lakeward deploy --retire {stream}", text, f"lakeward deploy --retire {stream}")


def _of_late(stream: str, late: str) -> Remedy:
    """The step for a stream whose watermark is ahead or whose rows come late: no command gives the state back."""
    if "ahead of the clock" in late:
        text = (
            "its checkpoint keeps the watermark: give the stream a new id and a new table "
            f"(conf/streams/{stream}.yaml), with watermark: {{max_ahead: 1h}}, then: lakeward deploy"
        )
    else:
        text = (
            f"find out why events come late (a producer's clock, an outage); a longer watermark: delay in "
            f"conf/streams/{stream}.yaml lets later ones count, then: lakeward deploy; "
            f"lakeward streams upgrade {stream} --wait"
        )
    return Remedy("lakeward deploy", text, "lakeward deploy")


def of_block(
    stream: str,
    blocked: Mapping[str, Any],
    *,
    spec: StreamSpec | None = None,
    pending: int | None = None,
    cured: bool = False,
    table_next: str | None = None,
) -> str:
    """What helps a blocked stream: one command, or several joined with `then` or `or`."""
    start = f"lakeward streams start {stream}"
    if cured:
        return start
    puts_back = blocked.get("reason") in PUT_BACK and spec is not None and spec.sink.iceberg is not None
    if puts_back and blocked.get("reason") == "position-unreadable":
        return f"lakeward streams recover {stream}   puts back the newest position that can be read"
    text = str(table_next or blocked.get("next") or f"lakeward streams status {stream}")
    ways = [_upgraded(stream, way) for way in _ways(text)]
    if pending is not None and (blocked.get("reason") in OF_THE_GENERATION or "lakeward deploy" in ways[0]):
        ways[0] = f"lakeward streams upgrade {stream} --wait   runs generation {pending}, which waits"
    ways = [_renewed(stream, way) for way in ways]
    fit = [way for way in ways if puts_back or not _refused(way, spec)]
    if not fit:
        copy = f"restore the checkpoint from a copy, then: {start}"  # it brings no record of the source back
        fit = [new_id(stream)] if blocked.get("reason") in _OF_THE_SOURCE else [copy, new_id(stream)]
    return "; or ".join(_for_sink(way, spec) if _ENDS.search(way) else f"{way}; then: {start}" for way in fit)


def _ways(text: str) -> list[str]:
    """The ways of a text. What follows its last `; then:` is the end of each way that has no command of its own."""
    before, then, end = text.rpartition("; then: ")
    if not then or "lakeward " in before:
        return _WAYS.split(text)
    return [f"{way}; then: {end}" for way in _WAYS.split(before)]


def new_id(stream: str) -> str:
    """The step for a stream that cannot go on in its table: another one, which starts at its source."""
    deploy = f"lakeward deploy --retire {stream}"
    return f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: {deploy}"


def _renewed(stream: str, way: str) -> str:
    """The way with the deploy that starts the stream of another id and ends the old one, which would stay blocked."""
    if not _OTHER_STREAM.search(way):
        return way
    if "lakeward " not in way:
        return new_id(stream)
    return re.sub(r"lakeward deploy\b(?! --retire)", f"lakeward deploy --retire {stream}", way, count=1)


def _for_sink(way: str, spec: StreamSpec | None) -> str:
    """The way with what the stream's sink has in place of a table: a folder, or nothing that a new id would need."""
    if spec is None or spec.sink.rows_in is not None:
        return way
    return way.replace("a new id and a new table", "a new id and a new folder" if spec.sink.files else "a new id")


def _upgraded(stream: str, way: str) -> str:
    """The way with the upgrade after a deploy: a deploy alone changes nothing that runs, a start runs what ran."""
    if "lakeward deploy" not in way or "streams upgrade" in way or _OTHER_STREAM.search(way):
        return way
    upgrade = f"lakeward streams upgrade {stream} --wait"
    start = re.compile(rf"\(lakeward deploy\),? then: lakeward streams start {re.escape(stream)}")
    if start.search(way):
        return start.sub(f"in conf/streams/{stream}.yaml, then: lakeward deploy; {upgrade}", way)
    return re.sub(r"lakeward deploy\b", f"lakeward deploy; {upgrade}", way, count=1)


def _refused(way: str, spec: StreamSpec | None) -> bool:
    """Whether the way is a command that the shape of the stream does not allow."""
    operation = next((name for words, name in _MOVES.items() if f"lakeward {words}" in way), None)
    if operation is None or spec is None:
        return False
    from lakeward.spec.deploy.movable import obstacle  # the analysis of SQL is loaded only for a blocked stream

    return obstacle(spec, operation) is not None
