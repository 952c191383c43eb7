"""Purge: delete registry rows that are past their retention time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import Connection, delete, func, select, update

from lakeward.registry import schema
from lakeward.spec.model.settings import Keep

_SETTING = {"verifications": "checks", "waivers": "changes", "check_runs": "requests"}
"""Table -> the setting with its retention time, where the names differ. Checks are deleted with their run."""
TABLES = (
    "batches", "events", "incidents", "restarts", "operations", "facts", "plans", "actions", "verifications", "changes",
    "waivers", "check_runs", "lag_history", "launches",
)  # fmt: skip
_TIME = {
    "batches": "committed_at",
    "operations": "requested_at",
    "actions": "started_at",
    "incidents": "closed_at",  # an open one stays
    "waivers": "until",
}
BATCH = 10_000  # rows a statement: a purge never holds locks for long


def times(keep: Keep) -> dict[str, timedelta]:
    """Table -> retention time."""
    return {name: getattr(keep, _SETTING.get(name, name)).timedelta for name in (*TABLES, "observations", "samples")}


def purge(connection: Connection, keep: Mapping[str, timedelta] | None = None) -> dict[str, int]:
    """Delete rows that are older than their retention time; returns the rows deleted by table.

    A table's newest verification that proved its own head is never deleted: `verified` is repaired from it. One call
    deletes at most `BATCH` rows of a table; the next call deletes the rest.
    """
    retention = times(Keep()) | dict(keep or {})
    removed = {}
    for name in TABLES:
        table = schema.metadata.tables[name]
        moment = table.c[_TIME.get(name, "at")]
        key = list(table.primary_key.columns)
        old = select(*key).where(moment < func.now() - retention[name])
        if name == "verifications":
            proof = (
                select(func.max(table.c.at))
                .where(table.c.verdict.in_(["pass", "warn"]), table.c.verified_snapshot == table.c.to_snapshot)
                .group_by(table.c.table)
                .scalar_subquery()
            )
            old = old.where(table.c.at.not_in(proof))
        if name == "launches":  # a driver may run for longer than its launch is kept: its newest one stays
            old = old.where(table.c.token.not_in(select(schema.drivers.c.token)))
        chosen = old.limit(BATCH).subquery()
        condition = [column == chosen.c[column.name] for column in key]
        removed[name] = connection.execute(delete(table).where(*condition)).rowcount
    removed["observations"] = _of_removed_streams(connection, retention["observations"])
    removed["samples"] = _samples(connection, retention["samples"])
    return {name: count for name, count in removed.items() if count}


def _samples(connection: Connection, keep: timedelta) -> int:
    """Delete samples of failing rows, which are user data; the results of the checks stay."""
    checks, runs = schema.checks, schema.verifications
    old = (
        select(checks.c.run, checks.c.check)
        .join(runs, runs.c.run == checks.c.run)
        .where(runs.c.at < func.now() - keep, func.jsonb_array_length(checks.c.sample) > 0)
        .limit(BATCH)
        .subquery()
    )
    done = update(checks).where(checks.c.run == old.c.run, checks.c.check == old.c.check)
    return connection.execute(done.values(sample=[])).rowcount


def _of_removed_streams(connection: Connection, keep: timedelta) -> int:
    """Delete the observations of retired streams."""
    retired = select(schema.streams.c.id).where(schema.streams.c.removed_at < func.now() - keep)
    return connection.execute(delete(schema.observations).where(schema.observations.c.stream.in_(retired))).rowcount
