"""Batches: what each stream landed, batch by batch. A copy for people; the table's position is the truth."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry.schema import batches


def record(connection: Connection, **values: Any) -> None:
    """Record one landed batch (columns of `schema.batches`). Saying it twice is harmless: the first record stays,
    and only `replayed` is raised."""
    statement = insert(batches).values(**values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[batches.c.stream, batches.c.query_id, batches.c.batch_id],
            set_={"replayed": True},
        )
    )


def newest(connection: Connection, stream: str, limit: int = 20) -> list[dict[str, Any]]:
    """The newest batches of a stream, newest first."""
    rows = connection.execute(
        select(batches).where(batches.c.stream == stream).order_by(batches.c.committed_at.desc()).limit(limit)
    )
    return [dict(row._mapping) for row in rows]


def of_snapshots(connection: Connection, snapshots: list[int]) -> list[dict[str, Any]]:
    """The batches that published the given snapshots, with their offsets."""
    rows = connection.execute(select(batches).where(batches.c.snapshot_id.in_(snapshots)).order_by(batches.c.seq))
    return [dict(row._mapping) for row in rows]


def totals(connection: Connection, stream: str) -> dict[str, int]:
    """Sums over the recorded batches: consumed, landed, quarantined, filtered, late_dropped."""
    names = ["consumed", "landed", "quarantined", "filtered", "late_dropped"]
    sums = [func.coalesce(func.sum(batches.c[name]), 0).label(name) for name in names]
    row = connection.execute(select(*sums).where(batches.c.stream == stream)).one()
    return {name: int(row._mapping[name]) for name in names}
