"""Maintenance ledger: tables, their facts, the plans made for them and the actions done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, cast

from sqlalchemy import Connection, func, insert, literal, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import JSONB, distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert

from lakeward.registry.schema import actions, facts, plans, tables


class Figures(TypedDict, total=False):
    """What the ledger records of a table before or after an action. An operation of a person adds its own keys.

    Attributes:
        promised_files, promised_bytes, partitions, final: before: what was planned; `final` are the partitions that get
            their final layout.
        positions: of an expiry: stream -> the snapshot of its position, which was on main.
        files_taken, files_given, delete_files_taken, delete_files_given, commits: after: what the rewrite moved.
        files_meanwhile, records_meanwhile: after: commits of others between before and after.
        snapshots_expired, files_deleted: after an expiry.
        spared_files, spared: after an expiry or a removal of orphans: files left in place because they may be another
            table's, by the reason.
        returned: the rows that the engine's procedures returned.
        rules, written_before, dry_run: before a removal of orphans.
        listed_files, listed_bytes, orphan_files, orphan_bytes, young_files, sample, taken_files, taken_bytes, put_back,
            deleted_files, deleted_bytes: after a removal of orphans.
    """

    snapshot_id: int | None
    files: int
    small_files: int
    size_bytes: int
    records: int
    delete_files: int
    manifests: int
    snapshots: int
    metadata_files: int
    promised_files: int
    promised_bytes: int
    partitions: list[str]
    final: list[str]
    positions: dict[str, str]
    files_taken: int
    files_given: int
    delete_files_taken: int
    delete_files_given: int
    commits: int
    files_meanwhile: int
    records_meanwhile: int
    snapshots_expired: int
    files_deleted: int
    spared_files: int
    spared: dict[str, int]
    returned: list[dict[str, object]]
    rules: Mapping[str, object]
    written_before: str
    dry_run: bool
    listed_files: int
    listed_bytes: int
    orphan_files: int
    orphan_bytes: int
    young_files: int
    sample: list[str]
    taken_files: int
    taken_bytes: int
    put_back: int
    deleted_files: int
    deleted_bytes: int


class LedgerRow(TypedDict):
    """One action of the ledger: the columns of `schema.actions`. `result` is None while it is under way."""

    id: int
    plan: str
    table: str
    action: str
    session_id: str | None
    result: str | None
    verified: bool | None
    why: str
    before: Figures | None
    after: Figures | None
    started_at: datetime
    finished_at: datetime | None
    duration_s: float | None
    cpu_s: float | None


@dataclass(frozen=True)
class StoredFacts:
    """The facts of a table as an observation stored them (`tables.facts.TableFacts.document`)."""

    at: datetime
    snapshot_id: int | None
    facts: Mapping[str, object]


@dataclass(frozen=True)
class Table:
    """A registered table. `expiry_hold`: why snapshot expiry waits for a person."""

    name: str
    format: str
    location: str | None
    table_class: str | None
    hold_until: datetime | None
    expiry_hold: str | None
    registered_at: datetime


def register(connection: Connection, name: str, *, format: str, location: str | None, table_class: str | None) -> None:
    """Register a table, or update its row."""
    values = {"format": format, "location": location, "table_class": table_class}
    connection.execute(
        upsert(tables).values(name=name, **values).on_conflict_do_update(index_elements=[tables.c.name], set_=values)
    )


def all_tables(connection: Connection) -> dict[str, Table]:
    """Every registered table by name."""
    return {row.name: Table(**row._mapping) for row in connection.execute(select(tables).order_by(tables.c.name))}


def hold(connection: Connection, name: str, until: datetime | None) -> None:
    """Suspend maintenance of a table until a time (None lifts it)."""
    connection.execute(update(tables).where(tables.c.name == name).values(hold_until=until))


def hold_expiry(connection: Connection, name: str, why: str | None) -> None:
    """Hold snapshot expiry of a table until a person clears it (None lifts it)."""
    connection.execute(update(tables).where(tables.c.name == name).values(expiry_hold=why))


def record_facts(connection: Connection, name: str, snapshot_id: int | None, observed: Mapping[str, object]) -> None:
    """Store the facts that were observed of a table now."""
    connection.execute(insert(facts).values(table=name, snapshot_id=snapshot_id, facts=observed))


def record_pins(connection: Connection, name: str, pins: Sequence[Mapping[str, object]]) -> None:
    """Store who keeps history of a table, with its newest facts; nothing is written while it stays the same."""
    newest = select(func.max(facts.c.at)).where(facts.c.table == name).scalar_subquery()
    value = literal(list(pins), JSONB)
    connection.execute(
        update(facts)
        .where(facts.c.table == name, facts.c.at == newest, facts.c.facts["pins"].is_distinct_from(value))
        .values(facts=func.jsonb_set(facts.c.facts, "{pins}", value))
    )


def newest_facts(connection: Connection) -> dict[str, StoredFacts]:
    """The newest facts by table."""
    rows = connection.execute(select(facts).ext(distinct_on(facts.c.table)).order_by(facts.c.table, facts.c.at.desc()))
    return {row.table: StoredFacts(row.at, row.snapshot_id, row.facts) for row in rows}


_NEWEST = facts.c.facts.op("-")("profile").label("facts")
"""The stored facts without their profile, which grows with the partitions of a table."""
_FIGURES = facts.c.facts.op("-")("profile").op("-")("pins").label("facts")


def newest_figures(connection: Connection) -> dict[str, StoredFacts]:
    """Registered table -> its newest facts without their profile."""
    newest = (
        select(facts.c.table, facts.c.at, facts.c.snapshot_id, _NEWEST)
        .where(facts.c.table == tables.c.name)
        .order_by(facts.c.at.desc())
        .limit(1)
        .lateral()
    )
    rows = connection.execute(select(newest).select_from(tables.join(newest, true())))
    return {row.table: StoredFacts(row.at, row.snapshot_id, row.facts) for row in rows}


def figures_over_time(connection: Connection, name: str, limit: int) -> list[StoredFacts]:
    """The newest stored facts of a table without their profile and pins, oldest first."""
    rows = connection.execute(
        select(facts.c.at, facts.c.snapshot_id, _FIGURES)
        .where(facts.c.table == name)
        .order_by(facts.c.at.desc())
        .limit(limit)
    )
    return [StoredFacts(row.at, row.snapshot_id, row.facts) for row in rows][::-1]


def newest_action_of_tables(connection: Connection) -> dict[str, LedgerRow]:
    """Registered table -> its newest action."""
    newest = (
        select(actions)
        .where(actions.c.table == tables.c.name)
        .order_by(actions.c.started_at.desc(), actions.c.id.desc())
        .limit(1)
        .lateral()
    )
    rows = connection.execute(select(newest).select_from(tables.join(newest, true())))
    return {row.table: cast("LedgerRow", dict(row._mapping)) for row in rows}


def record_plan(connection: Connection, plan_id: str, table: str, plan: Mapping[str, object]) -> None:
    """Store a plan, with its reasons for and against."""
    connection.execute(insert(plans).values(id=plan_id, table=table, plan=plan))


def newest_plan(connection: Connection, table: str) -> Mapping[str, object] | None:
    """The newest plan of a table with its `id` and `at`."""
    row = connection.execute(
        select(plans).where(plans.c.table == table).order_by(plans.c.at.desc()).limit(1)
    ).one_or_none()
    return None if row is None else {**row.plan, "id": row.id, "at": row.at}


def due_since(connection: Connection) -> dict[str, datetime]:
    """Table -> time of the first plan with a due action after which no action began; registry time."""
    acted = select(actions.c.table, func.max(actions.c.started_at).label("at")).group_by(actions.c.table).subquery()
    rows = connection.execute(
        select(plans.c.table, func.min(plans.c.at))
        .outerjoin(acted, acted.c.table == plans.c.table)
        .where(acted.c.at.is_(None) | (plans.c.at > acted.c.at))
        .group_by(plans.c.table)
    )
    return {row[0]: row[1] for row in rows}


def begin_action(
    connection: Connection, *, plan: str, table: str, action: str, session_id: str | None, before: Mapping[str, object]
) -> int:
    """Record an action before it is done, with the Spark Connect session that a takeover must interrupt."""
    return int(
        connection.execute(
            insert(actions)
            .values(plan=plan, table=table, action=action, session_id=session_id, before=before)
            .returning(actions.c.id)
        ).scalar_one()
    )


def finish_action(connection: Connection, action_id: int, **values: object) -> None:
    """Record an action's end (result, verified, why, after, duration_s, cpu_s)."""
    connection.execute(update(actions).where(actions.c.id == action_id).values(finished_at=func.now(), **values))


def newest_actions(
    connection: Connection, table: str | None = None, limit: int = 50, *, action: str | None = None
) -> list[LedgerRow]:
    """The ledger, newest first; of one table or of all, of one action or of all."""
    statement = select(actions).order_by(actions.c.id.desc()).limit(limit)
    if table is not None:
        statement = statement.where(actions.c.table == table)
    if action is not None:
        statement = statement.where(actions.c.action == action)
    return [cast("LedgerRow", dict(row._mapping)) for row in connection.execute(statement)]


def ended_after(
    connection: Connection, moment: datetime, action_id: int, *, settled_s: float, most: int
) -> list[LedgerRow]:
    """Actions that ended after a row of the ledger (its end and id), oldest end first.

    Args:
        settled_s: actions that ended later than this many seconds ago are left out: a transaction that began earlier
            may still end another.
    """
    statement = (
        select(actions)
        .where(tuple_(actions.c.finished_at, actions.c.id) > tuple_(literal(moment), literal(action_id)))
        .where(actions.c.finished_at < func.now() - timedelta(seconds=settled_s))
        .order_by(actions.c.finished_at, actions.c.id)
        .limit(most)
    )
    return [cast("LedgerRow", dict(row._mapping)) for row in connection.execute(statement)]


def unfinished_actions(connection: Connection, table: str) -> list[LedgerRow]:
    """Actions without an end: their process died."""
    rows = connection.execute(select(actions).where(actions.c.table == table, actions.c.result.is_(None)))
    return [cast("LedgerRow", dict(row._mapping)) for row in rows]


def running_on_connect(connection: Connection) -> list[str]:
    """`action of table` of each action without an end that has a session on the Connect server."""
    rows = connection.execute(
        select(actions.c.action, actions.c.table)
        .where(actions.c.result.is_(None), actions.c.session_id.is_not(None))
        .order_by(actions.c.id)
    )
    return [f"{row.action} of {row.table}" for row in rows]
