"""start, stop and restart of a stream."""

from __future__ import annotations

import structlog

from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.stream import OnStream, set_desired
from lakeward.registry import generations, observations, operations, streams
from lakeward.registry.streams import Stream
from lakeward.supervision.abandoned_operations import RESUME
from lakeward.supervision.decide.health import State

_RUNS = frozenset({State.HEALTHY, State.LAGGING})

log = structlog.get_logger(__name__)


class Start(OnStream[Plan]):
    """Set the desired state to running. Clears a block, ends a pause and lifts a hold."""

    name = StreamOperation.START.value

    def plan(self) -> Plan:
        row = self.row()
        text = f"run on driver {row.driver}, generation {row.generation}{_passed_over(row)}"
        return Plan(text, nothing=self._runs(row))

    def _runs(self, row: Stream) -> str:
        """That the stream runs, as a sentence; empty if a start changes something."""
        if row.desired != "running" or row.blocked is not None or row.hold_until is not None:
            return ""
        if row.state not in _RUNS:  # a start was requested, and no pass has seen that it is complete
            return ""
        seen = self.context.observe(row.id).verdict  # asked now: the driver may have died since the last pass
        return f"it runs already: {seen.why}{_passed_over(row)}" if seen.state in _RUNS else ""

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        waiting = held.streams[self.stream]
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            set_desired(connection, row, "running")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "running"})
        if not self.request.wait:
            later = self.context.reconcile() or "; reconcile launches its driver if needed"
            return self.done(f"asked to run{later}{_passed_over(row)}")
        return self.done(f"{waiting.started()}{_passed_over(row)}")


def _passed_over(row: Stream) -> str:
    """That a start runs the generation that ran, although a newer one waits, as a clause; empty if none waits."""
    if row.pending_generation is None:
        return ""
    again = " again, which was blocked" if row.blocked is not None else ""
    return (
        f"; this runs generation {row.generation}{again}. Generation {row.pending_generation} waits: "
        f"lakeward streams upgrade {row.id} --wait"
    )


class Stop(OnStream[Plan]):
    """Set the desired state to stopped. The stream stops at the end of its running batch."""

    name = StreamOperation.STOP.value

    def plan(self) -> Plan:
        row = self.row()
        text = f"stop at the end of the running batch; desired state now: {row.desired}"
        return Plan(text, nothing=self._stopped(row))

    def _stopped(self, row: Stream) -> str:
        """That the stream is stopped, as a sentence; empty if a stop changes something, e.g. suspends a schedule."""
        if row.desired == "running" or self._schedule(row) is not None:
            return ""
        seen = self.context.observe(row.id).verdict
        return f"it is stopped already: {seen.why}" if seen.state is State.STOPPED else ""

    def _schedule(self, row: Stream) -> str | None:
        with self.context.connect() as connection:
            generation = generations.get(connection, row.id, row.generation)
        trigger = {} if generation is None else generation.spec.get("trigger") or {}
        found: str | None = trigger.get("schedule")
        return found

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        waiting, schedule = held.streams[self.stream], self._schedule(self.row())
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            set_desired(connection, row, "stopped")
            if row.desired != "running" and schedule is not None:  # else its schedule would start the idle stream
                observations.record(connection, row.id, query_state="stopped")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "stopped"})
        if not self.request.wait:
            return self.done("asked to stop at the end of its running batch")
        return self.done(waiting.stopped(kill=self.request.kill))


class Restart(OnStream[Plan]):
    """Stop the stream at the end of its running batch, then start it."""

    name = StreamOperation.RESTART.value

    def plan(self) -> Plan:
        return Plan(f"stop at the end of the running batch and run again on driver {self.row().driver}")

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        waiting = held.streams[self.stream]
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            operations.note(connection, waiting.ticket.id, **{RESUME: True})
            set_desired(connection, row, "stopped")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "running"})
        try:
            detail = waiting.stopped(kill=self.request.kill)
        finally:
            # Also after a timeout the stream must run again; its driver handles the two requests in order.
            with self.context.connect() as connection:
                row = streams.get(connection, self.stream)
                set_desired(connection, row, "running")
        log.info("stream stopped, starting again", stream=self.stream, detail=detail)
        if not self.request.wait:
            return self.done(f"{detail}; asked to run again{self.context.reconcile()}")
        return self.done(waiting.started("started again"))
