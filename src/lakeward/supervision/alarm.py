"""Alarm: says, cheaply and often, whether a reconcile pass would have something to do now.

It decides with the same pure functions as the pass itself and changes nothing, but for one thing no pass can say: that
none has succeeded for too long. What it said once it repeats only when it changed, or after `AGAIN_S` if it still
holds: whoever heard it may have died.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.registry import incidents
from lakeward.supervision import dead_mans_switch
from lakeward.supervision import observe as look
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.decide.health import SETTLED, TROUBLE, State
from lakeward.supervision.decide.reconcile import plan
from lakeward.supervision.incidents import RECONCILE, STREAMS
from lakeward.supervision.observe import Connect, Facts, Found
from lakeward.supervision.startup_grace import StartupGracePeriod

AGAIN_S = 30.0


class Alarm:
    """Watches all streams; one poll serves them all."""

    def __init__(
        self, connect: Connect, runtime: Runtime, backend: Backend, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect, self._runtime, self._backend, self._clock = connect, runtime, backend, clock
        self._said: tuple[str, ...] = ()
        self._at = float("-inf")

    def look(self) -> list[str]:
        """What should be dealt with now, in sentences; empty when nothing should, or when it was said already."""
        try:
            with self._connect() as connection:
                facts = look.read(connection, whole=False)
                missed = self._missed(connection)
        except DependencyDown:
            StartupGracePeriod(self._runtime.drivers).lost()
            return []
        found = look.ask(self._backend, facts)
        calm = StartupGracePeriod(self._runtime.drivers).answered(server_up_s=facts.answering_s)
        reasons = [f"{item.driver}: {item.reason}" for item in plan(look.world(facts, found, calm)).acts]
        reasons += self._edges(facts, found)
        reasons += [missed] if missed is not None else []
        now = self._clock()
        said = tuple(sorted(reasons))
        if not said or (said == self._said and now - self._at < AGAIN_S):
            if not said:
                self._said = ()
            return []
        self._said, self._at = said, now
        return reasons

    def _missed(self, connection: Connection) -> str | None:
        """Whether passes stay away; that is an incident, which the next successful pass closes."""
        missed = dead_mans_switch.look(connection)
        if missed is None or (RECONCILE, STREAMS) in incidents.open_ones(connection):
            return missed
        incidents.opened(connection, RECONCILE, STREAMS, missed[:1].upper() + missed[1:], next=dead_mans_switch.NEXT)
        return missed

    def _edges(self, facts: Facts, found: Found) -> list[str]:
        """Words that changed in a way people care about: into trouble, out of it, or settled after a start."""
        edges = []
        verdicts = look.verdicts(facts, found)
        for stream in facts.streams:
            before, now = State(stream.state), verdicts[stream.id].state
            if before is not now and (now in TROUBLE or (now in SETTLED and before not in SETTLED)):
                edges.append(f"{stream.id}: {before} → {now}")
        return edges
