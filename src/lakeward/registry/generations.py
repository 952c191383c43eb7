"""Generations: every accepted spec of a stream, numbered, whole, and never changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from lakeward.registry.schema import generations, streams


@dataclass(frozen=True)
class Generation:
    """An accepted spec: `spec` is resolved, `sql` the text as it stood, `code` the digests of Python code and jars."""

    stream: str
    generation: int
    spec: dict[str, Any]
    digest: str
    sql: str | None
    code: dict[str, str]
    versions: dict[str, str]
    author: str
    checkpoint: str
    created_at: datetime
    stable_at: datetime | None


def _read(row: Row[Any]) -> Generation:
    return Generation(**row._mapping)


def get(connection: Connection, stream: str, generation: int) -> Generation | None:
    """One generation, or None."""
    row = connection.execute(
        select(generations).where(generations.c.stream == stream, generations.c.generation == generation)
    ).one_or_none()
    return None if row is None else _read(row)


def of_streams(connection: Connection, wanted: dict[str, int]) -> dict[str, Generation]:
    """The named generation of each stream, e.g. what a driver has to run."""
    if not wanted:
        return {}
    rows = connection.execute(select(generations).where(generations.c.stream.in_(wanted)))
    return {row.stream: _read(row) for row in rows if row.generation == wanted[row.stream]}


def latest(connection: Connection) -> dict[str, Generation]:
    """The newest generation of every stream that is not removed."""
    newest = (
        select(generations.c.stream, func.max(generations.c.generation).label("generation"))
        .join(streams, streams.c.id == generations.c.stream)
        .where(streams.c.removed_at.is_(None))
        .group_by(generations.c.stream)
        .subquery()
    )
    rows = connection.execute(
        select(generations).join(
            newest,
            (generations.c.stream == newest.c.stream) & (generations.c.generation == newest.c.generation),
        )
    )
    return {row.stream: _read(row) for row in rows}


def add(
    connection: Connection,
    *,
    stream: str,
    generation: int,
    spec: dict[str, Any],
    digest: str,
    sql: str | None,
    code: dict[str, str],
    versions: dict[str, str],
    author: str,
    checkpoint: str,
) -> None:
    """Record a new generation. The stream's row must exist."""
    connection.execute(
        insert(generations).values(
            stream=stream,
            generation=generation,
            spec=spec,
            digest=digest,
            sql=sql,
            code=code,
            versions=versions,
            author=author,
            checkpoint=checkpoint,
        )
    )


def mark_stable(connection: Connection, stream: str, generation: int) -> None:
    """Record that a generation proved itself (batches landed, lag under the limit)."""
    connection.execute(
        update(generations)
        .where(generations.c.stream == stream, generations.c.generation == generation)
        .where(generations.c.stable_at.is_(None))
        .values(stable_at=func.now())
    )
