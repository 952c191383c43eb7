"""Reconcile pass over all streams: observe, decide, act, record the states.

It is level-triggered: it acts on what it observes, so the next pass finishes a pass that was killed. It begins with the
drivers that one did not come to (`pass_progress`). It holds the lease `reconcile`, renewed with each step; the
compare-and-set of the launch intent protects even if two passes overlap.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import structlog
from sqlalchemy import Connection

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import count
from lakeward.registry import heartbeats, leases
from lakeward.spec.model.settings import Settings
from lakeward.supervision import (
    abandoned_operations,
    dead_mans_switch,
    incidents,
    observe,
    pass_progress,
    stabilization,
    state_log,
)
from lakeward.supervision.act import Actor, Done
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.context import backend_of, registry_of
from lakeward.supervision.decide.health import Verdict
from lakeward.supervision.decide.reconcile import Kill, Plan, plan
from lakeward.supervision.observe import Connect, Facts, ObservedJobs
from lakeward.supervision.pass_progress import Progress
from lakeward.supervision.stabilization import GenerationResult
from lakeward.supervision.startup_grace import StartupGracePeriod
from lakeward.supervision.state_log import StateChange

log = structlog.get_logger(__name__)

LEASE_TTL = timedelta(seconds=60)
__all__ = ["StateChange", "Summary", "backend_of", "reconcile_once", "record_results", "registry_of"]

ROUNDS = 4
"""Kill, finalize, launch, observe: what the death of one driver needs."""


@dataclass(frozen=True)
class Summary:
    """What one pass observed and did.

    Attributes:
        done: what was done, in order.
        states: state and reason of every stream after the pass.
        edges: the state changes.
        after_s: in how many seconds the next decision falls due; None if none does.
        held_by: the holder of the lease, if another pass was running and this one did nothing, or if another took over
            from this one because its lease expired; None if it ran.
        startup_grace: why nothing may be launched now (startup grace period).
        duration_s: how long it took.
        proved: generations that became stable or were rolled back.
    """

    done: tuple[Done, ...] = ()
    states: Mapping[str, Verdict] = field(default_factory=dict)
    edges: tuple[StateChange, ...] = ()
    after_s: float | None = None
    held_by: str | None = None
    startup_grace: str | None = None
    duration_s: float = 0.0
    proved: tuple[GenerationResult, ...] = ()

    @property
    def launched(self) -> list[str]:
        """Names of the drivers this pass launched."""
        return [item.driver for item in self.done if item.act == "launched"]

    @property
    def text(self) -> str:
        """The pass in one sentence."""
        if self.held_by is not None:
            return f"Skipped: {self.held_by} is reconciling"
        totals: dict[str, int] = {}
        for verdict in self.states.values():
            totals[verdict.state.value] = totals.get(verdict.state.value, 0) + 1
        states = ", ".join(f"{number} {state}" for state, number in sorted(totals.items())) or "none is deployed"
        done = [*(item.text for item in self.done), *(f"{item.stream}: {item.text}" for item in self.proved)]
        acts = "; ".join(done) or "no action needed"
        return f"Observed {count(len(self.states), 'stream')} in {self.duration_s:.1f} s: {states}; {acts}"


def reconcile_once(
    connect: Connect,
    runtime: Runtime,
    backend: Backend | None = None,
    *,
    holder: str,
    settings: Settings | Callable[[], Settings] | None = None,
    chance: Callable[[], float] = random.random,
    ttl: timedelta = LEASE_TTL,
    startup_grace_s: float = leases.STREAM_TTL.total_seconds(),
    supervises: bool = True,
) -> Summary:
    """Observe all streams once and do what is due. Safe to call from anywhere, at any time, repeatedly.

    Args:
        connect: opens a transaction on the registry (`registry_of(runtime)`).
        runtime: addresses handed to launched drivers.
        backend: where drivers run; the runtime's own when None.
        holder: who reconciles; shown to others.
        settings: the project's settings, for the size of drivers, or a function that reads them.
        chance: returns a float in [0, 1), for the jitter of back-off.
        ttl: lifetime of the lease `reconcile`, longer than a pass.
        startup_grace_s: the time after the registry is back in which nothing is launched.
        supervises: whether more passes follow by themselves; the pass of a person's command proves no supervision.

    Raises:
        DependencyDown: the registry cannot be reached; nothing was decided or done.
    """
    begun = time.monotonic()
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    startup = StartupGracePeriod(runtime.drivers, startup_grace_s)
    token = secrets.token_hex(16)
    try:
        with connect() as connection:
            lease = leases.take(connection, "reconcile", "streams", token, holder, ttl)
            if lease is None:
                return Summary(held_by=_holder(connection))
            progress = pass_progress.begin(connection)
        try:
            actor = Actor(connect, runtime, backend or backend_of(runtime), _reader(settings), chance)
            return _pass(actor, startup, begun, _Steps(connect, token, ttl, progress), supervises=supervises)
        finally:
            with connect() as connection:
                leases.release(connection, "reconcile", ["streams"], token)
    except DependencyDown:
        startup.lost()
        raise


def _reader(settings: Settings | Callable[[], Settings] | None) -> Callable[[], Settings]:
    if settings is None or isinstance(settings, Settings):
        return lambda: settings or Settings()
    return settings


def _holder(connection: Connection) -> str:
    other = leases.current(connection, "reconcile").get("streams")
    return other.holder if other else "another process"


@dataclass
class _Steps:
    """The steps of one pass: each is recorded, and renews the lease."""

    connect: Connect
    token: str
    ttl: timedelta
    progress: Progress

    def taken_over(self) -> str | None:
        """Renew the lease; who holds it instead, if the pass was slower than its lease."""
        with self.connect() as connection:
            if leases.renew(connection, "reconcile", ["streams"], self.token, self.ttl):
                return None
            return _holder(connection)

    def attended(self, driver: str) -> None:
        """Record that a decision for a driver was carried out."""
        with self.connect() as connection:
            self.progress = pass_progress.step(connection, self.progress, driver)


def _pass(actor: Actor, startup: StartupGracePeriod, begun: float, steps: _Steps, *, supervises: bool) -> Summary:
    done: list[Done] = []
    undecided: set[str] = set()  # drivers whose decision failed: the next pass tries again
    decided = Plan()
    grace: str | None = None
    with actor.connect() as connection:
        abandoned_operations.finish(connection)
    facts, jobs = _observe_and_probe(actor)
    for number in range(ROUNDS):
        if number:
            facts, jobs = _observe(actor, facts)
        grace = startup.answered(server_up_s=facts.answering_s)
        decided = plan(observe.observed_state(facts, jobs, grace))
        if not decided.acts:
            break
        due = [item for item in decided.acts if item.driver not in undecided]
        if not due:
            break
        for decision in pass_progress.ordered(due, steps.progress.attended):
            other = steps.taken_over()
            if other is not None:
                return Summary(done=tuple(done), held_by=other)
            result = attempt(f"driver {decision.driver}", partial(actor.do, decision, facts), through=(DependencyDown,))
            if isinstance(result, Failure):
                undecided.add(decision.driver)
                result = Done(decision.driver, "failed", result.text, {"next": result.next})
            if result is not None:
                done.append(result)
            steps.attended(decision.driver)
        if any(item.act == "failed" for item in done) and any(isinstance(item, Kill) for item in decided.acts):
            break  # a process that survives SIGKILL is not signalled again in this pass
    if decided.acts:  # the observation from before the acts is outdated
        facts, jobs = _observe(actor, facts)
    proved, states, edges = record_results(actor.connect, facts, jobs, supervises=supervises)
    summary = Summary(
        done=tuple(done),
        states=states,
        edges=edges,
        after_s=decided.after_s,
        startup_grace=grace,
        duration_s=time.monotonic() - begun,
        proved=proved,
    )
    with actor.connect() as connection:
        if supervises:
            heartbeats.record(
                connection,
                dead_mans_switch.RECONCILE,
                duration_s=summary.duration_s,
                streams=len(states),
                acts=len(done),
            )
        pass_progress.finish(connection)
    for edge in edges:
        log.info("stream state changed", stream=edge.stream, before=edge.before, after=edge.after, why=edge.why)
    return summary


def _observe(actor: Actor, before: Facts | None = None) -> tuple[Facts, ObservedJobs]:
    with actor.connect() as connection:
        facts = observe.read(connection, whole=False, before=before)
    return facts, observe.observed_jobs(actor.backend, facts)


def _observe_and_probe(actor: Actor) -> tuple[Facts, ObservedJobs]:
    """The first observation of a pass; probes dependencies and detects thrash if a stream is in trouble."""
    facts, jobs = _observe(actor)
    verdicts = observe.verdicts(facts, jobs)
    with actor.connect() as connection:
        state_log.record_adopted(connection, facts, jobs)
    if not incidents.silent(facts, verdicts):
        return facts, jobs
    answers, needed = incidents.ask(facts, actor.runtime, verdicts, actor.settings)
    with actor.connect() as connection:
        incidents.of_dependencies(connection, facts, answers, needed, actor.chance)
        facts = observe.read(connection, whole=False, before=facts)
        incidents.of_thrash(connection, facts)
        return observe.read(connection, whole=False, before=facts), jobs


def record_results(
    connect: Connect, facts: Facts, jobs: ObservedJobs, *, supervises: bool
) -> tuple[tuple[GenerationResult, ...], dict[str, Verdict], tuple[StateChange, ...]]:
    """Record the results of a pass: proven generations, states, incidents.

    Args:
        supervises: whether the pass proves supervision, which ends the incident of missing passes.
    """
    with connect() as connection:
        proved = tuple(stabilization.stabilize(connection, facts))
        if proved:
            facts = observe.read(connection, whole=False, before=facts)
    states = observe.verdicts(facts, jobs)
    with connect() as connection:
        edges = state_log.record(connection, facts, states, supervises=supervises)
    return proved, states, edges
