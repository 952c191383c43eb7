"""Verifications: quality runs, their checks, and the snapshot up to which a table is proven."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select

from lakeward.registry.schema import checks, verifications


def record(connection: Connection, run: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Keep one run (columns of `schema.verifications`) and its checks (columns of `schema.checks` without `run`)."""
    connection.execute(insert(verifications).values(**run))
    if results:
        connection.execute(insert(checks), [{"run": run["run"], **result} for result in results])


def newest(connection: Connection, table: str, *, suite: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
    """The newest runs of a table, newest first; of one suite digest when given."""
    statement = select(verifications).where(verifications.c.table == table)
    if suite is not None:
        statement = statement.where(verifications.c.suite == suite)
    rows = connection.execute(statement.order_by(verifications.c.at.desc()).limit(limit))
    return [dict(row._mapping) for row in rows]


def last_verified(connection: Connection, table: str) -> dict[str, Any] | None:
    """The newest run that left `verified` on a snapshot: the proof the branch is repaired from."""
    row = connection.execute(
        select(verifications)
        .where(verifications.c.table == table, verifications.c.verified_snapshot.is_not(None))
        .order_by(verifications.c.at.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else dict(row._mapping)


def checks_of(connection: Connection, run: str) -> list[dict[str, Any]]:
    """The checks of one run."""
    rows = connection.execute(select(checks).where(checks.c.run == run).order_by(checks.c.check))
    return [dict(row._mapping) for row in rows]


def proofs(connection: Connection, table: str, limit: int = 100) -> list[dict[str, Any]]:
    """The newest runs that proved their own head, newest first: what `verified` may be rebuilt from."""
    rows = connection.execute(
        select(verifications)
        .where(
            verifications.c.table == table,
            verifications.c.verdict.in_(["pass", "warn"]),
            verifications.c.verified_snapshot == verifications.c.to_snapshot,
        )
        .order_by(verifications.c.at.desc())
        .limit(limit)
    )
    return [dict(row._mapping) for row in rows]
