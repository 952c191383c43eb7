"""Standalone backend: drivers in cluster mode, which a worker of a Spark standalone cluster starts.

The launch is a row of the registry; the driver is submitted with the row's id and takes the rest from there, on its own
machine. Its identity is the submission. What it says (exit record, end of the logs, thread dump) is in its row, so that
every host that reconciles sees the same. One call to the master's page lists all drivers.

The master's word is lost with the master, and a lost worker may still run its driver: then the job is `lost`. That is
not dead: reconcile decides by lease and heartbeat. See docs/adr/0101 and 0102.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import cast

import structlog

from lakeward.connectors.spark import submission
from lakeward.connectors.spark.submission import PYTHON, Listing, Submission
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown, LakewardError, expect
from lakeward.platform.runtime import ClusterPlace, Launch
from lakeward.registry import launches
from lakeward.registry.drivers import Handle
from lakeward.registry.launches import LaunchRow
from lakeward.supervision.backends import launch_rows
from lakeward.supervision.backends.base import ExitRecord, Job, Known, Life
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

KILL_S = 20.0
"""How long a kill may take: a worker sends SIGTERM, and SIGKILL ten seconds later (`driverTerminateTimeout`)."""
_POLL_S = 1.0
_LIVES = {
    "SUBMITTED": Life.ALIVE,  # it may start at any moment: nothing is started beside it
    "RUNNING": Life.ALIVE,
    "RELAUNCHING": Life.ALIVE,
    "FINISHED": Life.GONE,
    "FAILED": Life.GONE,
    "KILLED": Life.GONE,
    "ERROR": Life.UNKNOWN,  # its worker could not start it, or the worker is lost and the driver may run on
    "UNKNOWN": Life.UNKNOWN,
}


class StandaloneBackend:
    """Starts drivers on the workers of Spark standalone clusters."""

    name = "standalone"

    def __init__(self, connect: Connect) -> None:
        """`connect`: opens a transaction on the registry."""
        self._connect = connect

    def start(self, launch: Launch) -> Job:
        """Record the launch, and submit its driver."""
        place = expect(launch.cluster, "the place of a launch on a cluster")
        launch = launch.model_copy(update={"id": secrets.token_hex(8)})
        python = launch.conf.get(PYTHON, sys.executable)
        request = submission.document(launch, python, version("pyspark"))
        with self._connect() as connection:
            launches.record(
                connection, launch.id, driver=launch.driver, token=launch.token, place=place.model_dump(),
                document=launch.model_dump(mode="json", exclude={"pod", "yarn"}),
            )  # fmt: skip
        found = submission.submit(place, request)
        handle: Handle = {"submission": found, "master": place.master}
        with self._connect() as connection:
            launches.submitted(connection, launch.id, handle)
        return Job(launch.driver, launch.token, Life.ALIVE, handle, place.master, "")

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The newest launch of every driver on a cluster, and older ones that may still run."""
        with self._connect() as connection:
            rows = [row for row in launches.current(connection) if "master" in row.place]
        listings: dict[str, Listing | None] = {}
        for row in rows:
            if row.handle is not None and _key(row) not in listings:
                place = attempt(f"place of launch {row.id}", partial(_place, row))
                listings[_key(row)] = None if isinstance(place, Failure) else _listing(place)
        jobs = launch_rows.judged(rows, lambda row: _job(row, listings.get(_key(row))), _host)
        return launch_rows.with_unrecorded(jobs, known, _host)

    def stop(self, job: Job, *, grace_s: float) -> bool:
        """Ask the driver in its row to end at a batch boundary; after `grace_s` it is killed."""
        if job.waits:
            return self.kill(job)
        ended = partial(self._ended, job, within_s=grace_s)
        return launch_rows.ended_when_asked(self._connect, job, ended) or self.kill(job)

    def kill(self, job: Job) -> bool:
        """Ask the master to kill it: SIGTERM to its JVM, then SIGKILL; its Python process ends with the JVM."""
        try:
            place, name = self._submission(job)
            if place is not None:
                submission.kill(place, name)
            return self._ended(job, within_s=KILL_S)
        except LakewardError as error:
            # Not a failure of the pass: the next one tries again, and a driver that runs on is fenced.
            log.warning("driver not killed", driver=job.driver, error=error.what, why=error.why)
            return False

    def dump(self, job: Job) -> str | None:
        """Ask the driver in its row for a thread dump, which it writes there. A hung JVM cannot answer."""
        return launch_rows.thread_dump(self._connect, job)

    def _ended(self, job: Job, *, within_s: float) -> bool:
        place, name = self._submission(job)
        deadline = time.monotonic() + within_s
        while place is not None:
            state, _ = submission.status(place, name)
            if _LIVES.get(state or "") is Life.GONE:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return job.life is Life.GONE

    def _submission(self, job: Job) -> tuple[ClusterPlace | None, str]:
        with self._connect() as connection:
            row = launches.of_token(connection, job.token)
        if row is None or job.handle is None:
            return None, ""
        return _place(row), str(job.handle.get("submission", ""))


def _listing(place: ClusterPlace) -> Listing | None:
    """What a master lists; None if it cannot be asked. The drivers of other masters are not affected."""
    try:
        return submission.listing(place)
    except DependencyDown as error:
        log.warning("master not available", master=place.master, error=error.what, why=error.why)
        return None


def _job(row: LaunchRow, listed: Listing | None) -> Job:
    """What is left of one launch."""
    handle, name = row.handle, str((row.handle or {}).get("submission", ""))
    found = None if listed is None else listed.drivers.get(name)
    life, waits, lost, error = _judge(row, listed, found)
    record = cast("ExitRecord | None", row.exit)
    if record is None and error:
        record = {"error": error}
    host = row.host or (found.worker if found is not None else "") or _host(handle)
    last = None if life is Life.ALIVE else record
    return Job(
        row.driver, row.token, life, handle, host, row.log or "", last, printed=row.printed, waits=waits, lost=lost
    )


def _judge(row: LaunchRow, listed: Listing | None, found: Submission | None) -> tuple[Life, str, str, str]:
    """Life, why it waits, why it is lost, and the error of a launch without an exit record."""
    if listed is None:
        return Life.UNKNOWN, "", "", ""
    if found is None:
        return Life.UNKNOWN, "", f"the master {row.place.get('master')} does not know its driver any more", ""
    life = _LIVES.get(found.state, Life.UNKNOWN)
    if found.state == "SUBMITTED":
        return life, f"the Spark cluster has no room for its driver; {listed.room.words}", "", ""
    if found.state == "ERROR" and row.exit is None:
        _, reported = submission.status(_place(row), found.id)
        if reported:
            why = " ".join(line.strip() for line in reported.splitlines()[1:2]) or reported
            return Life.GONE, "", "", f"The Spark worker {found.worker} could not start the driver: {why}"
    if life is Life.UNKNOWN:
        return life, "", f"the master calls its driver {found.state}: its worker {found.worker} is lost", ""
    if life is Life.GONE and found.state == "FAILED" and row.exit is None and row.log is None:
        place = f"folder {found.id} of its work directory (stderr), or the worker's page"
        error = f"The driver ended before it took its launch; what it printed is on worker {found.worker}, {place}"
        return life, "", "", error
    return life, "", "", ""


def _place(row: LaunchRow) -> ClusterPlace:
    return ClusterPlace.model_validate(row.place)


def _key(row: LaunchRow) -> str:
    """One for all launches of a place."""
    return str(sorted(row.place.items()))


def _host(handle: Mapping[str, object] | None) -> str:
    return str((handle or {}).get("master", ""))
