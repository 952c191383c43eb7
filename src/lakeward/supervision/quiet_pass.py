"""Quiet pass: what a reconcile pass does while there is nothing to act on, done by the watcher without an Airflow task.

An Airflow task costs seconds of CPU before its first line. Most passes observe that nothing is to be done, record the
states, and end. The watcher, which polls the streams anyway, does these itself: it judges generations, records states
and incidents, by the same functions and under the same lease as a pass. Whatever needs a task (an act on a driver, a
message, a report, an asset event, a check) it leaves to a whole pass, which it requests.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection
from datetime import timedelta

from sqlalchemy import Connection

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import listed
from lakeward.registry import heartbeats, leases, operations
from lakeward.registry import incidents as incident_rows
from lakeward.spec.model.settings import Settings
from lakeward.supervision import (
    announce,
    check_requests,
    dead_mans_switch,
    incidents,
    observe,
    pass_progress,
    reconcile,
)
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.decide.reconcile import plan
from lakeward.supervision.observe import Connect, Facts, ObservedJobs
from lakeward.supervision.startup_grace import StartupGracePeriod

EVERY_S = 20.0
"""The interval of quiet passes, in seconds."""
REPEAT_S = 30.0
"""A request is repeated after this long: the task that received it may have died."""
ENOUGH_S = 55.0
"""So long after a whole pass no quiet one runs, and none requests another: a minute between passes is often enough for
what is not urgent. What is urgent, the alarm requests at once."""


class QuietPass:
    """Runs a quiet pass when one is due."""

    def __init__(
        self,
        connect: Connect,
        runtime: Runtime,
        backend: Backend,
        settings: Callable[[], Settings] = Settings,
        suites: Callable[[], Collection[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        suites: returns the tables with a suite of checks.
        """
        self._connect, self._runtime, self._backend = connect, runtime, backend
        self._settings, self._suites, self._clock = settings, suites, clock
        self._next = float("-inf")

    def poll(self) -> list[str]:
        """Why a whole pass is needed; empty if none is, if that was just said, or if the registry is away."""
        if self._clock() < self._next:
            return []
        self._next = self._clock() + EVERY_S
        token = secrets.token_hex(16)
        try:
            with self._connect() as connection:
                heartbeats.record(connection, dead_mans_switch.WATCHER, duration_s=0.0)
                newest = heartbeats.newest(connection, dead_mans_switch.RECONCILE)
                if newest is not None and newest.age_s < ENOUGH_S:
                    return []
                lease = leases.take(connection, "reconcile", "streams", token, "the watcher", reconcile.LEASE_TTL)
            if lease is None:
                return []
            try:
                reasons = ["no pass has succeeded yet"] if newest is None else self._pass()
            finally:
                with self._connect() as connection:
                    leases.release(connection, "reconcile", ["streams"], token)
        except DependencyDown:
            return []  # the alarm, which polled before, has remembered it
        if reasons:
            self._next = self._clock() + REPEAT_S
            return reasons
        with self._connect() as connection:
            heartbeats.record(connection, dead_mans_switch.QUIET, duration_s=0.0)
        return []

    def _pass(self) -> list[str]:
        with self._connect() as connection:
            facts = observe.read(connection, whole=False)
            unfinished = pass_progress.read(connection).unfinished
            abandoned = operations.abandoned(connection)
        jobs = observe.observed_jobs(self._backend, facts)
        reasons = self._to_act(facts, jobs)
        if unfinished:
            reasons.append("a pass did not finish")
        if abandoned:
            reasons.append(f"abandoned operations of {listed([item.stream for item in abandoned])}")
        if reasons:
            return reasons
        reconcile.record_results(self._connect, facts, jobs, supervises=False)
        with self._connect() as connection:
            return self._to_send(connection, observe.read(connection, whole=False, before=facts))

    def _to_act(self, facts: Facts, jobs: ObservedJobs) -> list[str]:
        """What a pass would act on or probe."""
        grace = StartupGracePeriod(self._runtime.drivers).answered(server_up_s=facts.answering_s)
        state = observe.observed_state(facts, jobs, grace)
        reasons = [f"{item.driver}: {item.reason}" for item in plan(state).acts]
        if incidents.silent(facts, observe.verdicts(facts, jobs)):
            reasons.append("a stream is in trouble, or a dependency is down")
        return reasons

    def _to_send(self, connection: Connection, facts: Facts) -> list[str]:
        """What only a task of Airflow can start, send or close."""
        from lakeward.supervision import report

        reasons = [f"{item.stream}: a report is due" for item in report.due(connection)]
        if incident_rows.pending(connection):
            reasons.append("messages about incidents are pending")
        if any(kind == incident_rows.OPERATION for kind, _ in incident_rows.open_ones(connection)):
            reasons.append("an operation takes too long")
        known = announce.read(connection)
        events, after = announce.decide(facts, known)
        reasons += sorted({f"{item.stream}: {item.what} to announce" for item in events})
        if after.keys() != known.keys():
            reasons.append("a stream is new or was retired")
        suites = self._suites()
        every = self._settings().checker.every.timedelta if suites else timedelta(0)
        if check_requests.unseen(connection, suites, every):
            reasons.append("unchecked rows")
        return reasons
