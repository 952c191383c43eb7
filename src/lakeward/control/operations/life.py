"""start, stop, restart."""

from __future__ import annotations

import structlog

from lakeward.control.operations.abandoned import RESUME
from lakeward.control.operations.act import Act
from lakeward.control.operations.request import Operation, Plan
from lakeward.control.operations.waiting import Waiting
from lakeward.registry import operations, streams

log = structlog.get_logger(__name__)


class Start(Act[Plan]):
    """Want it running. Clears what blocked it, cuts a pause short and lifts a hold."""

    operation = Operation.START

    def plan(self) -> Plan:
        row = self.row()
        return Plan(f"run on driver {row.driver}, generation {row.generation}")

    def do(self, plan: Plan, waiting: Waiting) -> str:
        with self.site.connect() as connection:
            row = streams.get(connection, self.stream)
            self.want(connection, row, "running")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "running"})
        if not self.request.wait:
            self.site.reconcile()
            return "asked to run; its driver is launched by reconcile if it does not run yet"
        return waiting.started()


class Stop(Act[Plan]):
    """Want it stopped at the end of its running batch."""

    operation = Operation.STOP

    def plan(self) -> Plan:
        return Plan(f"stop at the end of the running batch; now {self.row().desired} is wanted")

    def do(self, plan: Plan, waiting: Waiting) -> str:
        with self.site.connect() as connection:
            row = streams.get(connection, self.stream)
            self.want(connection, row, "stopped")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "stopped"})
        if not self.request.wait:
            return "asked to stop at the end of its running batch"
        return waiting.stopped(kill=self.request.kill)


class Restart(Act[Plan]):
    """Stop it at the end of its running batch, then start it."""

    operation = Operation.RESTART

    def plan(self) -> Plan:
        return Plan(f"stop at the end of the running batch and run again on driver {self.row().driver}")

    def do(self, plan: Plan, waiting: Waiting) -> str:
        with self.site.connect() as connection:
            row = streams.get(connection, self.stream)
            operations.note(connection, waiting.ticket.id, **{RESUME: True})
            self.want(connection, row, "stopped")
            self.changed(connection, {"desired": row.desired, "state": row.state}, {"desired": "running"})
        try:
            detail = waiting.stopped(kill=self.request.kill)
        finally:
            # Stopped or not in time: it was to run again afterwards, and its driver takes one after the other.
            with self.site.connect() as connection:
                row = streams.get(connection, self.stream)
                self.want(connection, row, "running")
        log.info(f"Stream {self.stream}: {detail}; starting it again")
        if not self.request.wait:
            self.site.reconcile()
            return f"{detail}; asked to run again"
        return waiting.started("started again")
