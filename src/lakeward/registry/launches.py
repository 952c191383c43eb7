"""Launches of drivers on clusters: what a driver runs by, what it is asked, and its last words.

A driver that a cluster starts shares no folder with the machine that reconciles. It is started with the id of its
launch alone and takes the rest, its token too, from here. What it leaves behind (exit record, the end of its logs, a
thread dump) is written here, so that every host reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Connection, exists, func, or_, select, update

from lakeward.registry.drivers import Handle
from lakeward.registry.schema import drivers, launches
from lakeward.telemetry.mask import mask

LOG_CHARACTERS, PRINTED_CHARACTERS, DUMP_CHARACTERS = 64_000, 4_000, 400_000
"""How much of the end of each log, and of the beginning of a thread dump, is kept."""
FOLLOWED = timedelta(days=1)
"""For how long a launch that is not the newest of its driver is looked for: it may still run."""


@dataclass(frozen=True)
class LaunchRow:
    """One launch, without its document.

    Attributes:
        place: where it was submitted, as `ClusterPlace`, `PodPlace` or `YarnPlace`.
        handle: its submission, pod or application; None until it is recorded.
        host, log: machine and folder of the driver, by its own words.
        exit: its `exit.json`.
    """

    id: str
    driver: str
    token: str
    place: dict[str, Any]
    handle: Handle | None
    host: str | None
    log: str | None
    exit: dict[str, Any] | None
    printed: str | None


@dataclass(frozen=True)
class Requests:
    """What a driver is asked from outside."""

    end: bool = False
    dump: datetime | None = None


_ROW = (
    launches.c.id, launches.c.driver, launches.c.token, launches.c.place, launches.c.handle, launches.c.host,
    launches.c.log, launches.c.exit, launches.c.printed,
)  # fmt: skip


def record(
    connection: Connection,
    launch: str,
    *,
    driver: str,
    token: str,
    document: Mapping[str, Any],
    place: Mapping[str, Any],
) -> None:
    """Record a launch before it is submitted."""
    values = {"id": launch, "driver": driver, "token": token, "document": dict(document), "place": dict(place)}
    connection.execute(launches.insert().values(**values))


def document(connection: Connection, launch: str) -> dict[str, Any] | None:
    """What the driver runs by; None if there is no such launch."""
    found = connection.execute(select(launches.c.document).where(launches.c.id == launch)).scalar_one_or_none()
    return None if found is None else cast("dict[str, Any]", found)


def submitted(connection: Connection, launch: str, handle: Handle) -> None:
    """Record the submission of a launch, by its starter."""
    connection.execute(update(launches).where(launches.c.id == launch).values(handle=dict(handle)))


def arrived(connection: Connection, launch: str, handle: Handle, *, host: str, log: str) -> None:
    """Record where a driver runs, by itself: its starter may have died before it recorded the submission."""
    values = {"handle": dict(handle), "host": host, "log": log}
    connection.execute(update(launches).where(launches.c.id == launch).values(**values))


def current(connection: Connection) -> list[LaunchRow]:
    """The newest launch of every driver on a cluster, and older ones of the last day without an exit record."""
    newest = exists().where(drivers.c.token == launches.c.token)
    followed = launches.c.exit.is_(None) & (launches.c.at > func.now() - FOLLOWED)
    found = connection.execute(select(*_ROW).where(or_(newest, followed)).order_by(launches.c.at))
    return [LaunchRow(**row._mapping) for row in found]


def pod_connections(connection: Connection) -> set[str]:
    """The connections by which the pods of current launches are reached. Only the place of a pod has a namespace."""
    places = [row.place for row in current(connection) if "namespace" in row.place]
    return {str(place["connection"]) for place in places if place.get("connection")}


def of_token(connection: Connection, token: str) -> LaunchRow | None:
    """The launch with this token; None for a driver that is not on a cluster."""
    row = connection.execute(select(*_ROW).where(launches.c.token == token)).one_or_none()
    return None if row is None else LaunchRow(**row._mapping)


def log_tail(connection: Connection, token: str) -> str | None:
    """The end of the log of a launch; None without one."""
    return connection.execute(select(launches.c.log_tail).where(launches.c.token == token)).scalar_one_or_none()


def newest_tail(connection: Connection, driver: str, before: datetime | None = None) -> str | None:
    """The end of the log of a driver's newest launch, or of its newest one before a moment."""
    found = select(launches.c.log_tail).where(launches.c.driver == driver).order_by(launches.c.at.desc()).limit(1)
    if before is not None:
        found = found.where(launches.c.at < before)
    return connection.execute(found).scalar_one_or_none()


def request_end(connection: Connection, token: str) -> None:
    """Ask a driver to end at a batch boundary."""
    connection.execute(update(launches).where(launches.c.token == token).values(end_requested_at=func.now()))


def request_dump(connection: Connection, token: str) -> datetime:
    """Ask a driver for a thread dump; returns the moment of the request, in database time."""
    request = update(launches).where(launches.c.token == token).values(dump_requested_at=func.clock_timestamp())
    return cast("datetime", connection.execute(request.returning(launches.c.dump_requested_at)).scalar_one())


def requests(connection: Connection, launch: str) -> Requests:
    """What the driver is asked; a dump that was written already is not asked any more."""
    c = launches.c
    row = connection.execute(select(c.end_requested_at, c.dump_requested_at, c.dumped_at).where(c.id == launch)).one()
    done = row.dump_requested_at is None or (row.dumped_at is not None and row.dumped_at >= row.dump_requested_at)
    return Requests(row.end_requested_at is not None, None if done else row.dump_requested_at)


def dumped(connection: Connection, token: str, requested: datetime) -> bool:
    """Whether a requested thread dump was written."""
    at = connection.execute(select(launches.c.dumped_at).where(launches.c.token == token)).scalar_one_or_none()
    return at is not None and at >= requested


def write_logs(connection: Connection, launch: str, *, log: str, printed: str) -> None:
    """Write the end of a driver's logs, masked."""
    values = {"log_tail": mask(log)[-LOG_CHARACTERS:], "printed": mask(printed)[-PRINTED_CHARACTERS:]}
    connection.execute(update(launches).where(launches.c.id == launch).values(**values))


def write_dump(connection: Connection, launch: str, text: str) -> None:
    """Write a thread dump."""
    values = {"dump": mask(text)[:DUMP_CHARACTERS], "dumped_at": func.clock_timestamp()}
    connection.execute(update(launches).where(launches.c.id == launch).values(**values))


def newest_dump(connection: Connection, driver: str) -> tuple[datetime, str] | None:
    """The newest thread dump of a driver, with when it was written; None without one."""
    c = launches.c
    found = select(c.dumped_at, c.dump).where((c.driver == driver) & c.dump.is_not(None))
    row = connection.execute(found.order_by(c.dumped_at.desc()).limit(1)).one_or_none()
    return None if row is None else (row.dumped_at, row.dump)


def write_exit(connection: Connection, launch: str, record: Mapping[str, Any]) -> None:
    """Write the exit record."""
    connection.execute(update(launches).where(launches.c.id == launch).values(exit=dict(record)))


def keep_exit(connection: Connection, launch: str, record: Mapping[str, Any]) -> None:
    """Write the exit record of a launch whose driver wrote none."""
    of_it = update(launches).where(launches.c.id == launch, launches.c.exit.is_(None))
    connection.execute(of_it.values(exit=dict(record)))
