"""Drivers: the launches. Intent and a fresh token are written by compare-and-set before a process exists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select, update
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry.schema import drivers


@dataclass(frozen=True)
class Driver:
    """The newest launch of a driver. `age_s` is the heartbeat's age in database time; None before the first one.

    `launched_s` is the age of the intent in seconds.
    """

    name: str
    token: str
    backend: str
    handle: dict[str, Any] | None
    host: str | None
    log: str | None
    state: str
    launched_at: datetime
    heartbeat: datetime | None
    exit_code: int | None
    error: str | None
    spark_ui: str | None
    age_s: float | None
    launched_s: float


def _select() -> Any:
    return select(
        drivers,
        func.extract("epoch", func.now() - drivers.c.heartbeat).label("age_s"),
        func.extract("epoch", func.now() - drivers.c.launched_at).label("launched_s"),
    )


def _read(row: Row[Any]) -> Driver:
    values = dict(row._mapping)
    values["age_s"] = None if values["age_s"] is None else float(values["age_s"])
    values["launched_s"] = float(values["launched_s"])
    return Driver(**values)


def all_drivers(connection: Connection) -> dict[str, Driver]:
    """The newest launch of every driver, by name."""
    return {row.name: _read(row) for row in connection.execute(_select().order_by(drivers.c.name))}


def find(connection: Connection, name: str) -> Driver | None:
    """The newest launch of one driver, or None."""
    row = connection.execute(_select().where(drivers.c.name == name)).one_or_none()
    return None if row is None else _read(row)


def intend(connection: Connection, name: str, *, token: str, previous: str | None, backend: str) -> bool:
    """Write the intent to launch: the driver's row gets `token` if its token still is `previous`.

    Returns:
        False when somebody else launched meanwhile: do not start a process.
    """
    fresh = {
        "token": token,
        "backend": backend,
        "handle": None,
        "host": None,
        "log": None,
        "state": "launching",
        "launched_at": func.now(),
        "heartbeat": None,
        "exit_code": None,
        "error": None,
        "spark_ui": None,
    }
    if previous is None:
        statement = insert(drivers).values(name=name, **fresh).on_conflict_do_nothing().returning(drivers.c.name)
        return connection.execute(statement).scalar_one_or_none() is not None
    changed = connection.execute(
        update(drivers).where(drivers.c.name == name, drivers.c.token == previous).values(**fresh)
    )
    return changed.rowcount == 1


def started(connection: Connection, name: str, token: str, *, handle: dict[str, Any], host: str, log: str) -> None:
    """Record what the backend answered. The driver itself may have reported before; its state is kept."""
    connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(handle=handle, host=host, log=log)
    )


def beat(connection: Connection, name: str, token: str, *, state: str, spark_ui: str | None = None) -> bool:
    """The driver's sign of life. Returns False when a newer launch exists: the caller is fenced."""
    changed = connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(heartbeat=func.now(), state=state, spark_ui=spark_ui)
    )
    return changed.rowcount == 1


def exited(connection: Connection, name: str, token: str, *, exit_code: int | None, error: str | None) -> None:
    """Record the end of a launch, by the driver itself or by whoever found it gone."""
    connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(state="exited", exit_code=exit_code, error=error)
    )
