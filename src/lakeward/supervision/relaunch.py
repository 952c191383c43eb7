"""Relaunch: the smallest reconcile pass, for a machine on which no whole pass comes to an end.

It launches what is dead and does nothing else: no probes, no reports, no messages, nothing alive is ended. The watcher
runs it in the triggerer, which has everything imported, when passes begin and do not finish. It decides by the same
pure function as a pass, under the same lease, and launches by the same compare-and-set, so that a pass beside it can
launch nothing twice. It records no successful pass: supervision counts as missing until a whole pass succeeds.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from functools import partial

import structlog

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import span
from lakeward.registry import leases
from lakeward.registry.heartbeats import Heartbeat
from lakeward.spec.model.settings import Settings
from lakeward.supervision import dead_mans_switch, observe, pass_progress
from lakeward.supervision.act import Actor, Done
from lakeward.supervision.backends.base import Backend, Life
from lakeward.supervision.decide.reconcile import Decision, FinalizeLaunch, Kill, Launch, Plan, Unstick, plan
from lakeward.supervision.observe import Connect
from lakeward.supervision.pass_progress import Progress
from lakeward.supervision.reconcile import LEASE_TTL, ROUNDS
from lakeward.supervision.startup_grace import StartupGracePeriod

log = structlog.get_logger(__name__)

FAILED_PASSES = 3
"""After this many passes in a row that began and did not finish, the smallest one runs."""
RUNNING_S = 600.0
"""A pass must have begun or made a step within this time: where `streams_reconcile` is paused, none begins, and nothing
is launched against the will of who paused it."""
SLOW_S = 300.0
"""After this long without a successful pass it runs even if a single pass began and has not finished yet."""
AGAIN_S = 30.0
"""The interval between two of these passes."""


def needed(newest: Heartbeat | None, progress: Progress) -> str | None:
    """Why the smallest pass has to run, or None. Pure.

    Args:
        newest: the newest successful pass.
        progress: of the passes since.
    """
    if progress.age_s is None or progress.age_s > RUNNING_S:
        return None
    if newest is not None and dead_mans_switch.judge(newest) is None:
        return None
    if progress.unfinished >= FAILED_PASSES:
        return f"{progress.unfinished} reconcile passes in a row began and did not finish"
    if progress.unfinished and newest is not None and newest.age_s > SLOW_S:
        return f"a reconcile pass began, and none has finished for {span(newest.age_s)}"
    return None


def launches(decided: Plan) -> list[Decision]:
    """The decisions that bring back what is dead: finalize it, end what it left behind, launch it. Pure."""
    return [
        item
        for item in decided.acts
        if isinstance(item, (FinalizeLaunch, Launch))
        or (isinstance(item, Kill) and not isinstance(item, Unstick) and item.job.life is Life.REMNANT)
    ]


class Relaunch:
    """Runs the smallest pass when it is needed."""

    def __init__(
        self,
        connect: Connect,
        runtime: Runtime,
        backend: Backend,
        settings: Callable[[], Settings] = Settings,
        *,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._runtime, self._clock = connect, runtime, clock
        self._actor = Actor(connect, runtime, backend, settings, chance)
        self._at = float("-inf")

    def poll(self) -> tuple[Done, ...]:
        """What was done; empty if nothing was needed, due, or allowed.

        Raises:
            DependencyDown: the registry cannot be reached.
        """
        if self._clock() - self._at < AGAIN_S:
            return ()
        with self._connect() as connection:
            why = needed(dead_mans_switch.newest(connection), pass_progress.read(connection))
        if why is None:
            return ()
        self._at = self._clock()
        done = self.once()
        log.warning("drivers relaunched without a whole pass", why=why, acts=[item.text for item in done])
        return done

    def once(self) -> tuple[Done, ...]:
        """Launch what is dead, unless a pass holds the lease."""
        token = secrets.token_hex(16)
        with self._connect() as connection:
            if leases.take(connection, "reconcile", "streams", token, "the watcher", LEASE_TTL) is None:
                return ()
        try:
            return self._pass(token)
        finally:
            with self._connect() as connection:
                leases.release(connection, "reconcile", ["streams"], token)

    def _pass(self, token: str) -> tuple[Done, ...]:
        startup = StartupGracePeriod(self._runtime.drivers)
        done: list[Done] = []
        undecided: set[str] = set()  # drivers whose decision failed
        facts = None
        for _ in range(ROUNDS):
            with self._connect() as connection:
                facts = observe.read(connection, whole=False, before=facts)
            jobs = observe.observed_jobs(self._actor.backend, facts)
            grace = startup.answered(server_up_s=facts.answering_s)
            decided = launches(plan(observe.observed_state(facts, jobs, grace)))
            acts = [item for item in decided if item.driver not in undecided]
            if not acts:
                break
            for decision in acts:
                with self._connect() as connection:
                    if not leases.renew(connection, "reconcile", ["streams"], token, LEASE_TTL):
                        return tuple(done)  # a pass took over
                act = partial(self._actor.do, decision, facts)
                result = attempt(f"driver {decision.driver}", act, through=(DependencyDown,))
                if isinstance(result, Failure):
                    undecided.add(decision.driver)
                    result = Done(decision.driver, "failed", result.text, {"next": result.next})
                if result is not None:
                    done.append(result)
        return tuple(done)
