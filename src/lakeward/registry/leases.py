"""Leases: who may act, for how long, in database time.

A lease is (scope, name, token, holder, until). Taking it is one statement, so two takers cannot both win; a holder
proves itself with its token. Liveness only: what was landed is decided by the table's own position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry.schema import leases

STREAM_TTL = timedelta(seconds=15)


@dataclass(frozen=True)
class Lease:
    """One row: `live` is the database's judgement at the time of reading."""

    scope: str
    name: str
    token: str
    holder: str
    until: datetime
    live: bool


def take(connection: Connection, scope: str, name: str, token: str, holder: str, ttl: timedelta) -> Lease | None:
    """Take or renew a lease. Returns None if another token holds it."""
    expiry = func.now() + ttl
    statement = (
        insert(leases)
        .values(scope=scope, name=name, token=token, holder=holder, until=expiry, since=func.now())
        .on_conflict_do_update(
            index_elements=[leases.c.scope, leases.c.name],
            set_={"token": token, "holder": holder, "until": expiry, "since": func.now()},
            where=or_(leases.c.token == token, leases.c.until < func.now()),
        )
        .returning(leases.c.until)
    )
    until = connection.execute(statement).scalar_one_or_none()
    return None if until is None else Lease(scope, name, token, holder, until, live=True)


def renew(connection: Connection, scope: str, names: Sequence[str], token: str, ttl: timedelta) -> set[str]:
    """Renew many leases of one token in one statement; returns the names still held.

    An expired lease that no other token took is renewed, too: a driver continues after a registry outage.
    """
    statement = (
        update(leases)
        .where(leases.c.scope == scope, leases.c.name.in_(names), leases.c.token == token)
        .values(until=func.now() + ttl)
        .returning(leases.c.name)
    )
    return set(connection.execute(statement).scalars())


def renew_all(connection: Connection, token: str, ttl: timedelta) -> set[tuple[str, str]]:
    """Renew every lease of one token in one statement; returns (scope, name) of those still held.

    Like `renew`, it renews an expired lease that no other token took in the meantime.
    """
    statement = (
        update(leases)
        .where(leases.c.token == token)
        .values(until=func.now() + ttl)
        .returning(leases.c.scope, leases.c.name)
    )
    return {(row.scope, row.name) for row in connection.execute(statement)}


def release(connection: Connection, scope: str, names: Sequence[str], token: str) -> None:
    """Release leases. A lease taken over in the meantime is not touched."""
    connection.execute(
        delete(leases).where(and_(leases.c.scope == scope, leases.c.name.in_(names), leases.c.token == token))
    )


def forget(connection: Connection, scope: str, name: str) -> None:
    """Remove a lease, regardless of its holder."""
    connection.execute(delete(leases).where(leases.c.scope == scope, leases.c.name == name))


def current(connection: Connection, scope: str, names: Sequence[str] | None = None) -> dict[str, Lease]:
    """The leases of a scope by name."""
    statement = select(leases, (leases.c.until >= func.now()).label("live")).where(leases.c.scope == scope)
    if names is not None:
        statement = statement.where(leases.c.name.in_(names))
    return {
        row.name: Lease(row.scope, row.name, row.token, row.holder, row.until, row.live)
        for row in connection.execute(statement)
    }
