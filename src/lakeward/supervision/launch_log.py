"""The log of a launch: a file of this machine, or, of a driver on a cluster, its end in the registry."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from lakeward.registry import drivers, launches
from lakeward.registry.drivers import Driver
from lakeward.telemetry import tail


def on_cluster(row: Driver) -> bool:
    """Whether a cluster runs this driver, so that its files are not here."""
    return drivers.on_cluster(row.handle)


def newest(connection: Connection, row: Driver, stream: str, failed_at: datetime | None = None) -> list[str]:
    """The newest lines about a stream, for a failure report.

    Args:
        failed_at: when a launch before this one failed, to read that one's log.
    """
    earlier = failed_at is not None and failed_at < row.launched_at
    if on_cluster(row):
        text = launches.newest_tail(connection, row.name, row.launched_at if earlier else None)
        return tail.short(tail.of_text(text or "", stream, tail.LINES))
    if not row.log:
        return []
    folder = Path(row.log)
    return tail.newest((earlier and tail.before(folder)) or folder, stream)
