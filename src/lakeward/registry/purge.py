"""Purge: everything Lakeward writes into the registry has a keep time."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, delete, func, select

from lakeward.registry import schema

KEEP = {
    "batches": timedelta(days=30),
    "events": timedelta(days=90),
    "restarts": timedelta(days=90),
    "operations": timedelta(days=365),
    "facts": timedelta(days=30),
    "plans": timedelta(days=30),
    "actions": timedelta(days=365),
    "verifications": timedelta(days=90),  # checks go with their run
    "changes": timedelta(days=3 * 365),
}
_TIME = {
    "batches": "committed_at",
    "operations": "requested_at",
    "actions": "started_at",
}
BATCH = 10_000  # rows a statement: a purge never holds locks for long


def purge(connection: Connection, keep: dict[str, timedelta] | None = None) -> dict[str, int]:
    """Delete what is older than its keep time; returns the rows deleted by table.

    A table's newest verification that proved its own head is never deleted: `verified` is repaired from it. At most
    `BATCH` rows a table go in one call; the next call takes the rest.
    """
    removed = {}
    for name, default in KEEP.items():
        table = schema.metadata.tables[name]
        moment = table.c[_TIME.get(name, "at")]
        key = list(table.primary_key.columns)
        old = select(*key).where(moment < func.now() - (keep or {}).get(name, default))
        if name == "verifications":
            proof = (
                select(func.max(table.c.at))
                .where(table.c.verdict.in_(["pass", "warn"]), table.c.verified_snapshot == table.c.to_snapshot)
                .group_by(table.c.table)
                .scalar_subquery()
            )
            old = old.where(table.c.at.not_in(proof))
        chosen = old.limit(BATCH).subquery()
        condition = [column == chosen.c[column.name] for column in key]
        removed[name] = connection.execute(delete(table).where(*condition)).rowcount
    return {name: count for name, count in removed.items() if count}
