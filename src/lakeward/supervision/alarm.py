"""Alarm: reports, cheaply and often, whether a reconcile pass has something to do now.

It uses the pure functions of the pass and changes nothing, with one exception: it opens the incident that no pass has
succeeded for too long, which no pass can do. The same reasons are reported again only after `REPEAT_S`, because the
task that received them may have died.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.registry import incidents
from lakeward.supervision import dead_mans_switch, observe
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.decide.health import SETTLED, TROUBLE
from lakeward.supervision.decide.reconcile import plan
from lakeward.supervision.incidents import RECONCILE, STREAMS
from lakeward.supervision.observe import Connect, Facts, ObservedJobs
from lakeward.supervision.startup_grace import StartupGracePeriod

REPEAT_S = 30.0


class Alarm:
    """Watches all streams with one poll."""

    def __init__(
        self, connect: Connect, runtime: Runtime, backend: Backend, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect, self._runtime, self._backend, self._clock = connect, runtime, backend, clock
        self._reported: tuple[str, ...] = ()
        self._at = float("-inf")

    def poll(self) -> list[str]:
        """The reasons for a reconcile pass now; empty if there is none, or if they were reported already."""
        try:
            with self._connect() as connection:
                facts = observe.read(connection, whole=False)
                missed = self._missed(connection)
        except DependencyDown:
            StartupGracePeriod(self._runtime.drivers).lost()
            return []
        jobs = observe.observed_jobs(self._backend, facts)
        grace = StartupGracePeriod(self._runtime.drivers).answered(server_up_s=facts.answering_s)
        reasons = [f"{item.driver}: {item.reason}" for item in plan(observe.observed_state(facts, jobs, grace)).acts]
        reasons += self._edges(facts, jobs)
        reasons += [missed] if missed is not None else []
        now = self._clock()
        current = tuple(sorted(reasons))
        if not current or (current == self._reported and now - self._at < REPEAT_S):
            if not current:
                self._reported = ()
            return []
        self._reported, self._at = current, now
        return reasons

    def _missed(self, connection: Connection) -> str | None:
        """Why passes are missing, or None. Missing passes are an incident, which the next successful pass closes."""
        missed = dead_mans_switch.missed_passes(connection)
        if missed is None or (RECONCILE, STREAMS) in incidents.open_ones(connection):
            return missed
        incidents.opened(connection, RECONCILE, STREAMS, missed[:1].upper() + missed[1:], next=dead_mans_switch.NEXT)
        return missed

    def _edges(self, facts: Facts, jobs: ObservedJobs) -> list[str]:
        """State changes that people care about: into trouble, out of it, or settled after a start."""
        edges = []
        verdicts = observe.verdicts(facts, jobs)
        for stream in facts.streams:
            now = verdicts[stream.id].state  # compared as text: a newer version may have recorded a state unknown here
            if stream.state != now.value and (now in TROUBLE or (now in SETTLED and stream.state not in SETTLED)):
                edges.append(f"{stream.id}: {stream.state} → {now}")
        return edges
