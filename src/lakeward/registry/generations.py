"""Generations: every accepted spec of a stream, numbered, complete and immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, null, select, tuple_, update
from sqlalchemy.dialects.postgresql import JSONB

from lakeward.platform.errors import expect
from lakeward.registry.schema import generations, streams


@dataclass(frozen=True)
class Generation:
    """An accepted spec: `spec` is resolved, `sql` the original text, `code` the digests of Python code and jars."""

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
    failed_at: datetime | None = None
    failure: str | None = None


def _read(row: Row[Any]) -> Generation:
    return Generation(**row._mapping)


def get(connection: Connection, stream: str, generation: int) -> Generation | None:
    """One generation, or None."""
    row = connection.execute(
        select(generations).where(generations.c.stream == stream, generations.c.generation == generation)
    ).one_or_none()
    return None if row is None else _read(row)


def named(connection: Connection, stream: str, generation: int) -> Generation:
    """The generation that a row of the stream names, which must exist."""
    return expect(get(connection, stream, generation), f"generation {generation} of stream {stream}")


def of_streams(
    connection: Connection, numbers: dict[str, int], *, known: Mapping[str, Generation] | None = None
) -> dict[str, Generation]:
    """The named generation of each stream, e.g. what a driver has to run.

    Args:
        known: generations read before: only their mutable fields (stable, failed) are read again. One that was created
            at another time is of another registry, e.g. of a backup that was restored, and is read whole.
    """
    unchanged = {name: item for name, item in (known or {}).items() if numbers.get(name) == item.generation}
    key = tuple_(generations.c.stream, generations.c.generation)
    result: dict[str, Generation] = {}
    if unchanged:
        mutable = select(
            generations.c.stream,
            generations.c.created_at,
            generations.c.stable_at,
            generations.c.failed_at,
            generations.c.failure,
        ).where(key.in_([(name, item.generation) for name, item in unchanged.items()]))
        for row in connection.execute(mutable):
            if row.created_at == unchanged[row.stream].created_at:
                values = {"stable_at": row.stable_at, "failed_at": row.failed_at, "failure": row.failure}
                result[row.stream] = replace(unchanged[row.stream], **values)
    missing = [(name, number) for name, number in numbers.items() if name not in result]
    if missing:
        rows = connection.execute(select(generations).where(key.in_(missing)))
        result |= {row.stream: _read(row) for row in rows}
    return result


def last_stable(connection: Connection, before: dict[str, int]) -> dict[str, int]:
    """The newest stable generation of each stream that is older than the given one and shares its checkpoint.

    Args:
        before: stream -> the generation to roll back.
    """
    if not before:
        return {}
    bad = generations.alias("bad")
    rows = connection.execute(
        select(generations.c.stream, func.max(generations.c.generation))
        .join(bad, bad.c.stream == generations.c.stream)
        .where(tuple_(bad.c.stream, bad.c.generation).in_(list(before.items())))
        .where(generations.c.generation < bad.c.generation, generations.c.checkpoint == bad.c.checkpoint)
        .where(generations.c.stable_at.is_not(None), generations.c.failed_at.is_(None))
        .group_by(generations.c.stream)
    )
    return {row[0]: int(row[1]) for row in rows}


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


def kafka_connections(connection: Connection) -> set[str]:
    """The Kafka connections that streams name in their current or pending generation; retired streams are excluded."""
    return _connections(connection, "$.**.kafka.connection")


def postgres_connections(connection: Connection) -> set[str]:
    """The PostgreSQL connections that streams name as a sink or as a source of references."""
    landed = _connections(connection, "$.sink.postgres.connection")
    return landed | _connections(connection, "$.reference.*.jdbc.connection")


def sink_connections(connection: Connection) -> set[str]:
    """The connections that Python sinks name."""
    return _connections(connection, "$.sink.connection")


def aws_connections(connection: Connection) -> set[str]:
    """The AWS connections that sources name."""
    return _connections(connection, "$.sources.*.kinesis.connection")


def _connections(connection: Connection, path: str) -> set[str]:
    """The values at a JSON path in the specs."""
    named = func.jsonb_path_query(generations.c.spec, path, type_=JSONB)
    rows = connection.execute(
        select(named)
        .distinct()
        .join(streams, streams.c.id == generations.c.stream)
        .where(streams.c.removed_at.is_(None))
        .where(generations.c.generation.in_([streams.c.generation, streams.c.pending_generation]))
    )
    return {str(row[0]) for row in rows}


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
    """Record that a generation is stable (batches landed, lag under the limit)."""
    mark_all_stable(connection, [(stream, generation)])


def mark_all_stable(connection: Connection, proved: Sequence[tuple[str, int]]) -> None:
    """Record that many generations are stable, in one statement."""
    connection.execute(
        update(generations)
        .where(tuple_(generations.c.stream, generations.c.generation).in_(list(proved)))
        .where(generations.c.stable_at.is_(None))
        .values(stable_at=func.now())
    )


def newest_stable(connection: Connection, stream: str, *, before: int) -> Generation | None:
    """The newest stable generation older than `before`, for comparison with it."""
    row = connection.execute(
        select(generations)
        .where(generations.c.stream == stream, generations.c.generation < before)
        .where(generations.c.stable_at.is_not(None))
        .order_by(generations.c.generation.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else _read(row)


def newest(connection: Connection, stream: str, limit: int) -> list[Generation]:
    """The newest generations of a stream, newest first."""
    rows = connection.execute(
        select(generations).where(generations.c.stream == stream).order_by(generations.c.generation.desc()).limit(limit)
    )
    return [_read(row) for row in rows]


def tables_of(connection: Connection, stream: str, key: str) -> set[str]:
    """The tables that any generation of a stream names under `quarantine` or `late` (`key`): all may have rows."""
    table = generations.c.spec[key]["table"].astext
    rows = connection.execute(select(table).distinct().where(generations.c.stream == stream, table.is_not(None)))
    return {str(name) for (name,) in rows}


def late_table(spec: Mapping[str, Any]) -> str | None:
    """The table in which a generation with this spec keeps late records; None: Spark drops them. Pure."""
    table = (spec.get("late") or {}).get("table")
    return None if table is None else str(table)


def late_tables(connection: Connection, stream: str) -> dict[int, str]:
    """Generation -> the table in which it keeps late records, for those that keep them."""
    late = generations.c.spec["late"]
    rows = connection.execute(
        select(generations.c.generation, late).where(generations.c.stream == stream, late.is_not(None))
    )
    found = {int(number): late_table({"late": kept}) for number, kept in rows}
    return {number: table for number, table in found.items() if table is not None}


def mark_failed(connection: Connection, stream: str, generation: int, failure: str) -> None:
    """Record that a generation was rolled back automatically, which happens once."""
    connection.execute(
        update(generations)
        .where(generations.c.stream == stream, generations.c.generation == generation)
        .where(generations.c.failed_at.is_(None))
        .values(failed_at=func.now(), failure=failure)
    )


def restore(connection: Connection, stream: str, generation: int, *, before: int) -> bool:
    """Make an earlier generation current again, with its driver, and clear block, pause and proving conditions.

    A compare-and-set: returns False and changes nothing if the current generation is not `before` any more.
    """
    spec = connection.execute(
        select(generations.c.spec).where(generations.c.stream == stream, generations.c.generation == generation)
    ).scalar_one()
    driver = (spec.get("resources") or {}).get("driver") or stream
    restored = connection.execute(
        update(streams)
        .where(streams.c.id == stream, streams.c.generation == before)
        .values(
            generation=generation,
            driver=driver,
            blocked=null(),
            run_after=None,
            proving=null(),
            updated_at=func.now(),
        )
    )
    return restored.rowcount == 1
