"""One pass over all streams: look, decide, act, record the words people see.

It is level-triggered: what it does follows from what it sees, so a pass that was killed half way is finished by the
next one. It holds the lease `reconcile`; the compare-and-set of the intent protects even where two passes overlap.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from sqlalchemy import Connection

from lakeward.backends.base import Backend
from lakeward.backends.local import LocalBackend
from lakeward.control import look
from lakeward.control.act import Actor, Done
from lakeward.control.calm import Calm
from lakeward.control.look import Connect, Facts
from lakeward.errors import DependencyDown
from lakeward.registry import changes, events, leases, operations, streams
from lakeward.registry.engine import connect as connect_to
from lakeward.runtime import Runtime
from lakeward.spec.settings import Settings
from lakeward.streams.health import Verdict
from lakeward.streams.reconcile import Kill, Plan, plan
from lakeward.streams.words import count, span

log = structlog.get_logger(__name__)

LEASE_TTL = timedelta(seconds=60)
ROUNDS = 4
"""Kill, bury, launch and a look after it: what one death needs."""
ABANDONED_S = 600.0
"""A restart nobody finished for this long stopped its stream and died: the stream is started again."""


@dataclass(frozen=True)
class Edge:
    """A stream's word changed."""

    stream: str
    before: str
    after: str
    why: str


@dataclass(frozen=True)
class Summary:
    """What one pass saw and did.

    Attributes:
        done: what was done, in order.
        states: the word and the sentence of every stream after the pass.
        edges: the words that changed.
        after_s: in how many seconds the next thing falls due by itself; None if nothing does.
        held_by: who else was reconciling, so that this pass did nothing; None if it ran.
        calm: why nothing may be launched just now.
        duration_s: how long it took.
    """

    done: tuple[Done, ...] = ()
    states: Mapping[str, Verdict] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    after_s: float | None = None
    held_by: str | None = None
    calm: str | None = None
    duration_s: float = 0.0

    @property
    def launched(self) -> list[str]:
        """Names of the drivers this pass launched."""
        return [item.driver for item in self.done if item.act == "launched"]

    @property
    def text(self) -> str:
        """The pass in one sentence."""
        if self.held_by is not None:
            return f"Nothing done: {self.held_by} is reconciling"
        words: dict[str, int] = {}
        for verdict in self.states.values():
            words[verdict.state.value] = words.get(verdict.state.value, 0) + 1
        seen = ", ".join(f"{number} {word}" for word, number in sorted(words.items())) or "none is deployed"
        acts = "; ".join(item.text for item in self.done) or "nothing had to be done"
        return f"Looked at {count(len(self.states), 'stream')} in {self.duration_s:.1f} s: {seen}; {acts}"


def registry_of(runtime: Runtime) -> Connect:
    """Opens transactions on the registry of a runtime."""
    url = runtime.registry_url_file.read_text().strip()
    return lambda: connect_to(url, runtime.pgpass)


def backend_of(runtime: Runtime) -> Backend:
    """The backend of this deployment."""
    return LocalBackend.of_environment(runtime.drivers)


def reconcile_once(
    connect: Connect,
    runtime: Runtime,
    backend: Backend | None = None,
    *,
    holder: str,
    settings: Settings | Callable[[], Settings] | None = None,
    chance: Callable[[], float] = random.random,
    ttl: timedelta = LEASE_TTL,
    calm_s: float = leases.STREAM_TTL.total_seconds(),
) -> Summary:
    """Look at all streams once and do what is due. Safe to call from anywhere, at any time, twice.

    Args:
        connect: opens a transaction on the registry (`registry_of(runtime)`).
        runtime: addresses handed to launched drivers.
        backend: where drivers run; the runtime's own when None.
        holder: who reconciles, as others will read it.
        settings: the project's settings, for the size of drivers, or what reads them when they are needed.
        chance: gives a float in [0, 1), for the jitter of back-off.
        ttl: life of the lease `reconcile`, longer than a pass.
        calm_s: for how long nothing is launched after the registry answered again.

    Raises:
        DependencyDown: the registry cannot be reached; nothing was concluded, nothing was done.
    """
    begun = time.monotonic()
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    calm = Calm(runtime.drivers, calm_s)
    token = secrets.token_hex(16)
    try:
        with connect() as connection:
            lease = leases.take(connection, "reconcile", "streams", token, holder, ttl)
            if lease is None:
                other = leases.current(connection, "reconcile").get("streams")
                return Summary(held_by=other.holder if other else "somebody else")
        try:
            actor = Actor(connect, runtime, backend or backend_of(runtime), _asked(settings), chance)
            return _pass(actor, calm, begun)
        finally:
            with connect() as connection:
                leases.release(connection, "reconcile", ["streams"], token)
    except DependencyDown:
        calm.lost()
        raise


def _asked(settings: Settings | Callable[[], Settings] | None) -> Callable[[], Settings]:
    if settings is None or isinstance(settings, Settings):
        return lambda: settings or Settings()
    return settings


def _pass(actor: Actor, calm: Calm, begun: float) -> Summary:
    done: list[Done] = []
    decided = Plan()
    why_calm: str | None = None
    for _ in range(ROUNDS):
        with actor.connect() as connection:
            _finish_restarts(connection)
            facts = look.read(connection)
        why_calm = calm.answered(server_up_s=facts.answering_s)
        decided = plan(look.world(facts, look.ask(actor.backend, facts), why_calm))
        if not decided.acts:
            break
        for decision in decided.acts:
            result = actor.do(decision, facts)
            if result is not None:
                done.append(result)
        if any(item.act == "failed" for item in done) and any(isinstance(item, Kill) for item in decided.acts):
            break  # a process that survives SIGKILL is not hammered
    states, edges = _tell(actor)
    summary = Summary(
        done=tuple(done),
        states=states,
        edges=edges,
        after_s=decided.after_s,
        calm=why_calm,
        duration_s=time.monotonic() - begun,
    )
    for edge in edges:
        log.info(f"Stream {edge.stream} is {edge.after}: {edge.why}", stream=edge.stream, before=edge.before)
    return summary


def _tell(actor: Actor) -> tuple[dict[str, Verdict], tuple[Edge, ...]]:
    """Store the word of every stream; a changed one is an event of its timeline."""
    with actor.connect() as connection:
        facts = look.read(connection)
    found = look.ask(actor.backend, facts)
    edges = []
    states = look.verdicts(facts, found)
    with actor.connect() as connection:
        for stream in facts.streams:
            now = states[stream.id]
            if (stream.state, stream.why) == (now.state.value, now.why):
                continue
            if streams.set_state(connection, stream.id, now.state.value, now.why):
                edges.append(Edge(stream.id, stream.state, now.state.value, now.why))
                text = f"{stream.state} for {_held(facts, stream.id)} → {now.state.value}: {now.why}"
                events.record(
                    connection, "stream", stream.id, "state", text, before=stream.state, after=now.state.value
                )
    return states, tuple(edges)


def _held(facts: Facts, name: str) -> str:
    stream = next(item for item in facts.streams if item.id == name)
    return span((facts.now - stream.since).total_seconds())


def _finish_restarts(connection: Connection) -> None:
    """Start what a restart stopped and then died over."""
    for item in operations.unfinished(connection, "restart", older_than_s=ABANDONED_S):
        stream = streams.find(connection, item["stream"])
        operations.finish(connection, item["id"], "failed", "whoever restarted it died half way; it was started again")
        if stream is not None and stream.desired == "stopped" and stream.removed_at is None:
            streams.set_desired(connection, [stream.id], "running")
            changes.record(
                connection,
                "stream",
                stream.id,
                "start",
                author="reconcile",
                comment=f"finishes the restart of {item['author']}",
            )
