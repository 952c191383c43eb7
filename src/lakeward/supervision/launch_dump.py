"""The newest thread dump of a driver: a file of this machine, or, of a driver on a cluster, a row of the registry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from lakeward.platform.errors import DependencyDown
from lakeward.registry import launches
from lakeward.registry.drivers import Driver
from lakeward.supervision import launch_log, observe
from lakeward.supervision.backends.base import Backend, Life
from lakeward.supervision.backends.threads import FOLDER
from lakeward.supervision.observe import Connect


@dataclass(frozen=True)
class ThreadDump:
    """Stack traces of a driver's threads.

    Attributes:
        at: when it was taken.
        file: where it is on this machine; None: in the registry, which has its beginning.
    """

    at: datetime
    file: str | None
    text: str


def newest(connection: Connection, row: Driver) -> ThreadDump | None:
    """The newest dump of a driver, of whichever launch; None if none is there."""
    if launch_log.on_cluster(row):
        found = launches.newest_dump(connection, row.name)
        return None if found is None else ThreadDump(found[0], None, found[1])
    if not row.log:
        return None
    files = sorted(Path(row.log).parent.glob(f"*/{FOLDER}/*.txt"), key=lambda file: file.name)
    if not files:
        return None
    taken = datetime.fromtimestamp(files[-1].stat().st_mtime, UTC)
    return ThreadDump(taken, str(files[-1]), files[-1].read_text(errors="replace"))


def take(connect: Connect, backend: Backend, row: Driver) -> bool:
    """Take one now of a driver's newest launch; False if it is not alive, or none came.

    Raises:
        DependencyDown: the driver's cluster does not answer.
    """
    with connect() as connection:
        known = observe.read(connection, whole=False).known()
    jobs = [job for job in backend.find(known) if job.token == row.token]
    if any(job.life is Life.UNKNOWN for job in jobs):
        raise DependencyDown(
            f"No thread dump of driver {row.name}",
            why="its cluster does not answer, so that it is not known whether it runs",
            next="lakeward doctor",
            code="LW-1298",
        )
    return any(backend.dump(job) is not None for job in jobs)
