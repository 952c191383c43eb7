"""Maintains one table: takes its lease, stops statements of a dead predecessor, then runs the due actions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from uuid import uuid4

import structlog

from lakeward.connectors.spark.connect import interrupt
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Runtime
from lakeward.registry import events, maintenance
from lakeward.spec.model import policy
from lakeward.tables.act.server import Statements
from lakeward.tables.act.spark import on_spark
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard.actor import TTL, Transaction, hold_lease
from lakeward.tables.ledger import ActionEntry
from lakeward.tables.needs import read_registry
from lakeward.tables.observation import ShownTable, load_facts, observe_table, register, shown
from lakeward.tables.work import Engine, Work

log = structlog.get_logger(__name__)


class MaintainDocument(ShownTable):
    """The JSON of `tables maintain`."""

    actions: list[ActionEntry]


OnPlan = Callable[[ShownTable], None]
"""Receives the document of `observation.shown`."""


def maintain_table(
    site: MaintenanceContext,
    table: str,
    selected: Collection[str],
    holder: str | None = None,
    *,
    only: Collection[str] = (),
    ttl: timedelta = TTL,
    on: policy.Engine | None = None,
    engine: Engine = Statements,
    on_plan: OnPlan = lambda _: None,
) -> MaintainDocument:
    """Run the due actions of one table; returns the JSON of `run.maintain`.

    Args:
        site: the maintenance context.
        table: `namespace.table`.
        selected: actions, in the order they run.
        holder: the name of the lease's holder.
        only: partitions whose files are compacted; all that are due by default.
        ttl: how long the lease lasts without a heartbeat.
        on: the warm server, or a Spark application of its own; by default as in the table's policy.
        engine: runs statements on a session.
        on_plan: receives the table and the plan, before anything is done.

    Raises:
        Refused: another run maintains the table, or it must not be maintained.
        SpecError: the partition does not exist.
    """
    if site.delta(table) is None:
        site.load(table)  # a wrong name is reported before the lease is taken
    with hold_lease(site.registry, table, holder, ttl) as lease:
        take_over(site.registry, site.runtime, table)
        plan_id = uuid4().hex
        with site.registry() as connection:
            around = read_registry(connection)
        seen = load_facts(site, table, around)
        with site.registry() as connection:
            register(connection, around, seen.facts, external=site.external(table))
            first = observe_table(connection, site, seen, around, selected, only=only)
            if first.needs.forbidden and not first.plan.actions:
                raise Refused(
                    f"Cannot maintain {table}",
                    why=first.needs.forbidden,
                    next="lakeward tables plan",
                    code="LW-4012",
                )
            if first.plan.actions:
                maintenance.record_plan(connection, plan_id, table, first.plan.stored())
        document = shown(first)
        on_plan(document)
        where = on_spark(site, table, on or seen.policy.engine)
        work = Work(site, table, around, plan_id, lease, engine, where, only)
        done = work.all([action.action for action in first.plan.actions], selected, first)
        return {**document, "actions": done}


def take_over(transaction: Transaction, runtime: Runtime, table: str) -> list[int]:
    """Interrupt the session and close the actions of a dead predecessor; returns the ids of the actions.

    Only the holder of the table's lease may call it. A statement outlives a killed client by minutes, and two
    concurrent rewrites of one table conflict.
    """
    with transaction() as connection:
        unfinished = maintenance.unfinished_actions(connection, table)
    for row in unfinished:
        stopped = interrupt(runtime, row["session_id"]) if row["session_id"] else []
        why = f"its process died; the next run interrupted {len(stopped)} running statements"
        log.warning("Unfinished action taken over", table=table, action=row["action"], stopped=len(stopped))
        with transaction() as connection:
            maintenance.finish_action(connection, row["id"], result="failed", verified=False, why=why)
            events.record(connection, "table", table, "taken-over", f"{row['action']}: {why}", action=row["id"])
    return [row["id"] for row in unfinished]
