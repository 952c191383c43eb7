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

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import count
from lakeward.registry import heartbeats, leases
from lakeward.spec.model.settings import Settings
from lakeward.supervision import abandoned_operations, dead_mans_switch, incidents, observe, stabilization, state_log
from lakeward.supervision.act import Actor, Done
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.context import backend_of, registry_of
from lakeward.supervision.decide.health import Verdict
from lakeward.supervision.decide.reconcile import Kill, Plan, plan
from lakeward.supervision.observe import Connect, Facts, Found
from lakeward.supervision.stabilization import Proved
from lakeward.supervision.startup_grace import StartupGracePeriod
from lakeward.supervision.state_log import StateChange

log = structlog.get_logger(__name__)

LEASE_TTL = timedelta(seconds=60)
__all__ = ["StateChange", "Summary", "backend_of", "reconcile_once", "registry_of"]

ROUNDS = 4
"""Kill, bury, launch and a look after it: what one death needs."""


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
        proved: generations that became stable or were taken back.
    """

    done: tuple[Done, ...] = ()
    states: Mapping[str, Verdict] = field(default_factory=dict)
    edges: tuple[StateChange, ...] = ()
    after_s: float | None = None
    held_by: str | None = None
    calm: str | None = None
    duration_s: float = 0.0
    proved: tuple[Proved, ...] = ()

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
        told = [*(item.text for item in self.done), *(f"{item.stream}: {item.text}" for item in self.proved)]
        acts = "; ".join(told) or "nothing had to be done"
        return f"Looked at {count(len(self.states), 'stream')} in {self.duration_s:.1f} s: {seen}; {acts}"


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
    calm = StartupGracePeriod(runtime.drivers, calm_s)
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


def _pass(actor: Actor, calm: StartupGracePeriod, begun: float) -> Summary:
    done: list[Done] = []
    decided = Plan()
    why_calm: str | None = None
    with actor.connect() as connection:
        abandoned_operations.finish(connection)
    facts, found = _surroundings(actor)
    for turn in range(ROUNDS):
        if turn:
            facts, found = _look(actor, facts)
        why_calm = calm.answered(server_up_s=facts.answering_s)
        decided = plan(observe.world(facts, found, why_calm))
        if not decided.acts:
            break
        for decision in decided.acts:
            result = actor.do(decision, facts)
            if result is not None:
                done.append(result)
        if any(item.act == "failed" for item in done) and any(isinstance(item, Kill) for item in decided.acts):
            break  # a process that survives SIGKILL is not hammered
    if decided.acts:  # what was seen before them is not what is
        facts, found = _look(actor, facts)
    proved, states, edges = _finish(actor, facts, found)
    summary = Summary(
        done=tuple(done),
        states=states,
        edges=edges,
        after_s=decided.after_s,
        calm=why_calm,
        duration_s=time.monotonic() - begun,
        proved=proved,
    )
    with actor.connect() as connection:
        heartbeats.record(
            connection, dead_mans_switch.RECONCILE, duration_s=summary.duration_s, streams=len(states), acts=len(done)
        )
    for edge in edges:
        log.info(f"Stream {edge.stream} is {edge.after}: {edge.why}", stream=edge.stream, before=edge.before)
    return summary


def _look(actor: Actor, before: Facts | None = None) -> tuple[Facts, Found]:
    with actor.connect() as connection:
        facts = observe.read(connection, whole=False, before=before)
    return facts, observe.ask(actor.backend, facts)


def _surroundings(actor: Actor) -> tuple[Facts, Found]:
    """The first look of a pass, and what else could explain trouble: a dependency, or everything failing at once."""
    facts, found = _look(actor)
    verdicts = observe.verdicts(facts, found)
    with actor.connect() as connection:
        state_log.found_again(connection, facts, found)
    if not incidents.silent(facts, verdicts):
        return facts, found
    answers, needed = incidents.ask(facts, actor.runtime, verdicts, actor.settings)
    with actor.connect() as connection:
        incidents.of_dependencies(connection, facts, answers, needed, actor.chance)
        facts = observe.read(connection, whole=False, before=facts)
        incidents.of_thrash(connection, facts)
        return observe.read(connection, whole=False, before=facts), found


def _finish(
    actor: Actor, facts: Facts, found: Found
) -> tuple[tuple[Proved, ...], dict[str, Verdict], tuple[StateChange, ...]]:
    """What the pass leaves behind: proofs, words, incidents."""
    with actor.connect() as connection:
        proved = tuple(stabilization.prove(connection, facts))
        if proved:
            facts = observe.read(connection, whole=False, before=facts)
    states = observe.verdicts(facts, found)
    with actor.connect() as connection:
        edges = state_log.tell(connection, facts, states)
    return proved, states, edges
