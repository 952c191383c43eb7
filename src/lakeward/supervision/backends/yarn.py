"""YARN backend: drivers in cluster mode, whose JVM is the application master of a Spark application.

The launch is a row of the registry; the application has the row's id and takes the rest from there, on its node. Its
identity is the application; a tag with a digest of the token finds it if its starter died before it recorded it. One
list call for each deployment shows all applications. A ResourceManager that does not answer says nothing about its
drivers, and one that forgot an application may still have it running: that is not dead. See docs/adr/0106 and 0107.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import structlog

from lakeward.connectors.yarn import submit
from lakeward.connectors.yarn.client import App, ResourceManager
from lakeward.connectors.yarn.site import settled
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError, expect
from lakeward.platform.runtime import Launch, YarnPlace
from lakeward.registry import launches
from lakeward.registry.drivers import Handle
from lakeward.registry.launches import LaunchRow
from lakeward.supervision.backends import applications, launch_rows
from lakeward.supervision.backends.base import ExitRecord, Job, Known, Life
from lakeward.supervision.backends.identity import deployment
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

KILL_S = 30.0
"""How long the ResourceManager may take to end an application."""
_POLL_S = 1.0
_ENDED = ("FINISHED", "FAILED", "KILLED")
Listing = Mapping[str, App]
"""Applications by the tag of their launch."""


class YarnBackend:
    """Starts drivers as applications of YARN."""

    name = "yarn"

    def __init__(
        self,
        connect: Connect,
        manager: Callable[[YarnPlace], ResourceManager] = lambda place: ResourceManager(place.resource_managers),
        send: Callable[[Launch, YarnPlace], str] = submit.submit,
    ) -> None:
        """`connect`: opens a transaction on the registry. `manager`: of a place. `send`: submits a launch."""
        self._connect, self._manager, self._send = connect, manager, send

    def start(self, launch: Launch) -> Job:
        """Record the launch, and submit its driver. A submission without an answer is found by its tag."""
        requested = expect(launch.yarn, "the place of a launch on YARN")
        address = launch.runtime.registry_url_file.read_text()
        place = settled(requested).model_copy(update={"deployment": deployment(address)})
        launch = launch.model_copy(update={"id": secrets.token_hex(8), "yarn": place})
        manager, tag = self._manager(place), submit.launch_tag(launch.token)
        manager.version()  # one that is away is named at once, and no JVM is started for that
        with self._connect() as connection:
            launches.record(
                connection, launch.id, driver=launch.driver, token=launch.token, place=place.model_dump(mode="json"),
                document=launch.model_dump(mode="json"),
            )  # fmt: skip
        try:
            name = self._send(launch, place)
        except LakewardError:
            there = [app for app in manager.apps(tag) if app.get("state") not in _ENDED]
            if not there:
                raise
            name = str(there[0]["id"])  # it was submitted, and the answer was lost
        handle: Handle = {"application": name}
        with self._connect() as connection:
            launches.submitted(connection, launch.id, handle)
        return Job(launch.driver, launch.token, Life.ALIVE, handle, _host(handle), "")

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The newest launch of every driver on YARN, and older ones that may still run."""
        with self._connect() as connection:
            rows = [row for row in launches.current(connection) if "resource_managers" in row.place]
        read = [attempt(f"place of launch {row.id}", partial(_place, row)) for row in rows]
        places = {_key(place): place for place in read if not isinstance(place, Failure)}
        lists = {key: self._listing(place) for key, place in places.items()}
        jobs = launch_rows.judged(rows, partial(_job_of, lists=lists), _host)
        launch_rows.keep_ends(self._connect, rows, jobs)
        return launch_rows.with_unrecorded(jobs, known, _host)

    def stop(self, job: Job, *, grace_s: float) -> bool:
        """Ask the driver in its row to end at a batch boundary; after `grace_s` it is killed."""
        if job.waits:
            return self.kill(job)
        ended = partial(self._ended, job, within_s=grace_s)
        return launch_rows.ended_when_asked(self._connect, job, ended) or self.kill(job)

    def kill(self, job: Job) -> bool:
        """Have the ResourceManager kill its application. False if it does not confirm that, or does not know it."""
        try:
            place = _place(self._row(job))
            if self._manager(place).kill(_name(job)) and self._ended(job, within_s=KILL_S):
                return True
        except LakewardError as error:
            # Not a failure of the pass: the next one tries again, and a driver that runs on is fenced.
            log.warning("driver not killed", driver=job.driver, error=error.what, why=error.why, next=error.next)
            return False
        return job.life is Life.GONE

    def dump(self, job: Job) -> str | None:
        """Ask the driver in its row for a thread dump, which it writes there."""
        return launch_rows.thread_dump(self._connect, job)

    def _ended(self, job: Job, *, within_s: float) -> bool:
        place, name = _place(self._row(job)), _name(job)
        deadline = time.monotonic() + within_s
        while True:
            app = self._manager(place).app(name)
            if app is None:
                return job.life is Life.GONE
            if applications.judge(app).life is Life.GONE:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)

    def _row(self, job: Job) -> LaunchRow:
        with self._connect() as connection:
            return expect(launches.of_token(connection, job.token), "the row of a launch on YARN")

    def _listing(self, place: YarnPlace) -> Listing | None:
        """The applications of a place; None if it cannot be asked. The drivers of other places are not affected."""
        try:
            found = self._manager(place).apps(submit.deployment_tag(place.deployment))
        except LakewardError as error:
            log.warning("YARN not available", queue=place.queue, error=error.what, why=error.why, next=error.next)
            return None
        return {tag: app for app in found for tag in str(app.get("applicationTags") or "").split(",")}


def _job_of(row: LaunchRow, lists: Mapping[tuple[str, ...], Listing | None]) -> Job:
    """What is left of one launch."""
    listed = lists[_key(_place(row))]
    app = None if listed is None else listed.get(submit.launch_tag(row.token))
    handle = row.handle
    # A refused submission leaves an application that has failed: without a record of its starter it was no process.
    if app is not None and (handle is not None or app.get("state") not in _ENDED):
        handle = {"application": str(app["id"])}
    state = _state(row, listed, app)
    record = cast("ExitRecord | None", row.exit) or state.exit
    node = str((app or {}).get("amHostHttpAddress") or "").split(":")[0]
    last = None if state.life is Life.ALIVE else record
    return Job(
        row.driver, row.token, state.life, handle, row.host or node or _host(handle), row.log or "", last,
        printed=row.printed, waits=state.waits, lost=state.lost,
    )  # fmt: skip


def _state(row: LaunchRow, listed: Listing | None, app: App | None) -> applications.AppState:
    if listed is None:
        return applications.AppState(Life.UNKNOWN)
    if app is not None:
        return applications.judge(app)
    if row.exit is not None:
        return applications.AppState(Life.GONE)  # its driver, or an earlier pass, wrote how it ended
    lost = f"the ResourceManager does not know its application {_host(row.handle)} any more".replace("  ", " ")
    return applications.AppState(Life.UNKNOWN, lost=lost)


def _place(row: LaunchRow) -> YarnPlace:
    return YarnPlace.model_validate(row.place)


def _key(place: YarnPlace) -> tuple[str, ...]:
    return (*place.resource_managers, place.deployment)


def _name(job: Job) -> str:
    return str(expect(job.handle, "the identity of an application")["application"])


def _host(handle: Mapping[str, object] | None) -> str:
    return str((handle or {}).get("application", ""))
