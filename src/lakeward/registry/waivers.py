"""Waivers: a failure of one check that a person excused until a time, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from lakeward.registry.schema import waivers


@dataclass(frozen=True)
class Waiver:
    """One waiver.

    Attributes:
        check: the check's id in its suite.
        name: the expectation with its columns, for display.
        until: end of the waiver. Until then a failure is shown and does not hold `verified`.
    """

    id: int
    table: str
    check: str
    name: str
    author: str
    reason: str
    at: datetime
    until: datetime


_COLUMNS = [waivers.c[name] for name in Waiver.__dataclass_fields__]


def _read(row: Row[Any]) -> Waiver:
    return Waiver(**row._mapping)


def add(
    connection: Connection, table: str, check: str, name: str, *, author: str, reason: str, until: datetime
) -> Waiver:
    """Waive a check; an earlier waiver of it ends."""
    end(connection, table, check)
    made = insert(waivers).values(table=table, check=check, name=name, author=author, reason=reason, until=until)
    return _read(connection.execute(made.returning(*_COLUMNS)).one())


def end(connection: Connection, table: str, check: str) -> Waiver | None:
    """End the waiver of a check that is in force; returns it."""
    row = connection.execute(
        update(waivers)
        .where(waivers.c.table == table, waivers.c.check == check, _in_force())
        .values(ended_at=func.now(), told_at=func.now())
        .returning(*_COLUMNS)
    ).one_or_none()
    return None if row is None else _read(row)


def in_force(connection: Connection, table: str | None = None) -> list[Waiver]:
    """The waivers in force now, of one table or of all, by their end."""
    statement = select(*_COLUMNS).where(_in_force()).order_by(waivers.c.until, waivers.c.id)
    if table is not None:
        statement = statement.where(waivers.c.table == table)
    return [_read(row) for row in connection.execute(statement)]


def run_out(connection: Connection) -> list[Waiver]:
    """The expired waivers without a notification; they are marked as notified."""
    rows = connection.execute(
        update(waivers)
        .where(waivers.c.until <= func.now(), waivers.c.ended_at.is_(None), waivers.c.told_at.is_(None))
        .values(told_at=func.now())
        .returning(*_COLUMNS)
    )
    return sorted((_read(row) for row in rows), key=lambda waiver: waiver.id)


def _in_force() -> Any:
    return (waivers.c.until > func.now()) & waivers.c.ended_at.is_(None)
