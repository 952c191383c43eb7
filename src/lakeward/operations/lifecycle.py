"""start, stop, restart."""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from lakeward.operations.operation import Held
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.stream import OnStream, want
from lakeward.registry import generations, observations, operations, streams
from lakeward.registry.streams import Stream
from lakeward.supervision.abandoned_operations import RESUME

log = structlog.get_logger(__name__)


class Start(OnStream[Plan]):
    """Want it running. Clears what blocked it, cuts a pause short and lifts a hold."""

    name = StreamOperation.START.value

    def plan(self) -> Plan:
        row = self.row()
        return Plan(f"run on driver {row.driver}, generation {row.generation}")

    def apply(self, plan: Plan, held: Held) -> Outcome:
        waiting = held.streams[self.stream]
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            want(connection, row, "running")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "running"})
        if not self.request.wait:
            self.context.reconcile()
            return self.done("asked to run; its driver is launched by reconcile if it does not run yet")
        return self.done(waiting.started())


class Stop(OnStream[Plan]):
    """Want it stopped at the end of its running batch."""

    name = StreamOperation.STOP.value

    def plan(self) -> Plan:
        return Plan(f"stop at the end of the running batch; now {self.row().desired} is wanted")

    def apply(self, plan: Plan, held: Held) -> Outcome:
        waiting = held.streams[self.stream]
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            want(connection, row, "stopped")
            self._not_by_schedule(connection, row)
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "stopped"})
        if not self.request.wait:
            return self.done("asked to stop at the end of its running batch")
        return self.done(waiting.stopped(kill=self.request.kill))

    def _not_by_schedule(self, connection: Connection, row: Stream) -> None:
        """One that rests until its schedule starts it rests by a person's word from now on."""
        found = generations.get(connection, row.id, row.generation)
        trigger = {} if found is None else found.spec.get("trigger") or {}
        if row.desired != "running" and trigger.get("schedule") is not None:
            observations.record(connection, row.id, query_state="stopped")


class Restart(OnStream[Plan]):
    """Stop it at the end of its running batch, then start it."""

    name = StreamOperation.RESTART.value

    def plan(self) -> Plan:
        return Plan(f"stop at the end of the running batch and run again on driver {self.row().driver}")

    def apply(self, plan: Plan, held: Held) -> Outcome:
        waiting = held.streams[self.stream]
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            operations.note(connection, waiting.ticket.id, **{RESUME: True})
            want(connection, row, "stopped")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "running"})
        try:
            detail = waiting.stopped(kill=self.request.kill)
        finally:
            # Stopped or not in time: it was to run again afterwards, and its driver takes one after the other.
            with self.context.connect() as connection:
                row = streams.get(connection, self.stream)
                want(connection, row, "running")
        log.info(f"Stream {self.stream}: {detail}; starting it again")
        if not self.request.wait:
            self.context.reconcile()
            return self.done(f"{detail}; asked to run again")
        return self.done(waiting.started("started again"))
