"""Kubernetes backend: one pod for each launch of a driver, in which the driver runs with its own JVM.

The launch is a row of the registry; the pod has its name and the row's id, and takes the rest from there. One list call
for each namespace shows all pods. Unknown is not dead: an API that does not answer says nothing about its pods, and a
pod that is not there may run on, on a node that was cut off. See docs/adr/0104 and 0105.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import structlog

from lakeward.connectors.kubernetes import manifest, names
from lakeward.connectors.kubernetes.client import UNANSWERED, Api, Pod, Pods
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown, LakewardError, expect
from lakeward.platform.runtime import Launch, PodPlace
from lakeward.registry import launches
from lakeward.registry.drivers import Handle
from lakeward.registry.launches import LaunchRow
from lakeward.supervision.backends import launch_rows, pods
from lakeward.supervision.backends.base import ExitRecord, Job, Known, Life
from lakeward.supervision.backends.identity import deployment
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

KILL_S = 20.0
"""How long a node may take to confirm the end of a killed pod."""
REMOVED_AT_ONCE = 20
"""Ended pods that one pass removes."""
PlaceKey = tuple[str | None, str, str]
"""Connection, namespace and deployment: one list call each."""
_POLL_S = 0.5
_NOW = 1  # second of grace; 0 would remove the pod from the API while its processes may run on


class KubernetesBackend:
    """Starts drivers as pods."""

    name = "kubernetes"

    def __init__(self, connect: Connect, api: Callable[[PodPlace], Api]) -> None:
        """`connect`: opens a transaction on the registry. `api`: returns the API server of a place."""
        self._connect, self._api = connect, api

    def start(self, launch: Launch) -> Job:
        """Record the launch, and create its pod."""
        requested = expect(launch.pod, "the pod of a launch on Kubernetes")
        address = launch.runtime.registry_url_file.read_text()
        place = requested.model_copy(update={"deployment": deployment(address)})
        launch = launch.model_copy(update={"id": secrets.token_hex(8), "pod": place})
        api = self._api(place)
        with self._connect() as connection:
            launches.record(
                connection, launch.id, driver=launch.driver, token=launch.token, place=place.model_dump(),
                document=launch.model_dump(mode="json", exclude={"yarn"}),
            )  # fmt: skip
        pod = manifest.document(launch, place)
        name = str(pod["metadata"]["name"])
        made = _created(api, place, pod, launch.token)
        handle: Handle = {"pod": name, "namespace": place.namespace, "uid": pods.uid(made)}
        with self._connect() as connection:
            launches.submitted(connection, launch.id, handle)
        return Job(launch.driver, launch.token, Life.ALIVE, handle, _host(handle), "")

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The newest launch of every driver on Kubernetes, and older ones that may still run."""
        with self._connect() as connection:
            rows = [row for row in launches.current(connection) if "namespace" in row.place]
        read = [attempt(f"place of launch {row.id}", partial(_place, row)) for row in rows]
        places = {_key(place): place for place in read if not isinstance(place, Failure)}
        lists = {key: self._listing(place) for key, place in places.items()}
        jobs = launch_rows.judged(rows, partial(_job_of, lists=lists), _host)
        launch_rows.keep_ends(self._connect, rows, jobs)
        for key, listed in lists.items():
            if listed is not None:
                self._remove_ended(places[key], listed, {row.id for row in rows})
        return launch_rows.with_unrecorded(jobs, known, _host)

    def stop(self, job: Job, *, grace_s: float) -> bool:
        """Ask the driver in its row, and by SIGTERM, to end at a batch boundary; after `grace_s` it is killed."""
        if job.waits:
            return self.kill(job)
        ended = partial(self._deleted, job, max(_NOW, int(grace_s)), within_s=grace_s + KILL_S)
        return launch_rows.ended_when_asked(self._connect, job, ended) or self.kill(job)

    def kill(self, job: Job) -> bool:
        """Delete its pod with a second of grace, which its node confirms; without its word, remove it from the API.

        What a silent node may still run is not dead: False, and the next pass judges by lease and heartbeat.
        """
        try:
            if self._deleted(job, _NOW, within_s=KILL_S):
                return True
            self._delete(job, 0)
        except LakewardError as error:
            # Not a failure of the pass: the next one tries again, and a driver that runs on is fenced.
            log.warning("driver not killed", driver=job.driver, error=error.what, why=error.why)
        return False

    def dump(self, job: Job) -> str | None:
        """Ask the driver in its row for a thread dump, which it writes there."""
        return launch_rows.thread_dump(self._connect, job)

    def _deleted(self, job: Job, grace_s: int, *, within_s: float) -> bool:
        """Delete the pod of a job; True if its node confirmed its end, or it never had one."""
        if not self._delete(job, grace_s):
            return job.life is Life.GONE
        found, handle = self._row(job), job.handle or {}
        place = _place(found)
        deadline = time.monotonic() + within_s
        while True:
            pod = self._api(place).read(place.namespace, str(handle["pod"]))
            if pod is None or pods.uid(pod) != handle["uid"] or pods.has_ended(pod):
                with self._connect() as connection:
                    launches.keep_exit(connection, found.id, {"error": "The pod of the driver was deleted by Lakeward"})
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)

    def _delete(self, job: Job, grace_s: int) -> bool:
        place, handle = _place(self._row(job)), expect(job.handle, "the identity of a pod")
        return self._api(place).delete(place.namespace, handle["pod"], handle["uid"], grace_s)

    def _row(self, job: Job) -> LaunchRow:
        with self._connect() as connection:
            return expect(launches.of_token(connection, job.token), "the row of a launch on Kubernetes")

    def _listing(self, place: PodPlace) -> Pods | None:
        """The pods of a place; None if the API cannot be asked. The drivers of other places are not affected."""
        try:
            return self._api(place).pods(place.namespace, names.selector(place))
        except LakewardError as error:
            log.warning(
                "Kubernetes not available", namespace=place.namespace, error=error.what, why=error.why, next=error.next
            )
            return None

    def _remove_ended(self, place: PodPlace, listed: Pods, followed: set[str]) -> None:
        """Remove ended pods, except those of the newest launches, which people look at."""
        old = [
            pod
            for name, pod in listed.by_name.items()
            if attempt(f"pod {name}", partial(_is_removable, pod, followed)) is True
        ]
        try:
            for pod in old[:REMOVED_AT_ONCE]:
                self._api(place).delete(place.namespace, pod["metadata"]["name"], pods.uid(pod), 0)
        except LakewardError as error:
            log.warning("ended pods not removed", namespace=place.namespace, error=error.what, why=error.why)


def _created(api: Api, place: PodPlace, pod: Mapping[str, Any], token: str) -> Pod:
    """Create a pod. Its name is of this launch alone, so that an unanswered call is repeated."""
    try:
        made = api.create(place.namespace, pod)
    except DependencyDown as error:
        if error.code != UNANSWERED:
            raise
        made = api.create(place.namespace, pod)
    if made is not None:
        return made
    name = str(pod["metadata"]["name"])
    there = api.read(place.namespace, name)
    if there is None or there["metadata"].get("labels", {}).get(names.TOKEN) != names.digest(token):
        raise LakewardError(
            f"Another pod has the name {name}", why=f"namespace {place.namespace}; its labels are not of this launch",
            next=f"kubectl delete pod {name} -n {place.namespace}", code="LW-2562",
        )  # fmt: skip
    return there


def _job_of(row: LaunchRow, lists: Mapping[PlaceKey, Pods | None]) -> Job:
    """What is left of one launch."""
    listed = lists[_key(_place(row))]
    name = names.pod_name(row.driver, row.id)
    pod = None if listed is None else listed.by_name.get(name)
    handle = row.handle
    if pod is not None:
        handle = {"pod": name, "namespace": _place(row).namespace, "uid": pods.uid(pod)}
    state = _state(row, listed, pod)
    record = cast("ExitRecord | None", row.exit) or state.exit
    host = row.host or (pods.node(pod) if pod is not None else "") or _host(handle)
    last = None if state.life is Life.ALIVE else record
    return Job(
        row.driver, row.token, state.life, handle, host, row.log or "", last, printed=row.printed,
        waits=state.waits, lost=state.lost,
    )  # fmt: skip


def _state(row: LaunchRow, listed: Pods | None, pod: Pod | None) -> pods.PodState:
    if listed is None:
        return pods.PodState(Life.UNKNOWN)
    if pod is not None:
        return pods.judge(pod, listed.at)
    if row.exit is not None:
        return pods.PodState(Life.GONE)  # its driver, or an earlier pass, wrote how it ended
    return pods.PodState(Life.UNKNOWN, lost=f"its pod is not in namespace {row.place['namespace']} any more")


def _is_removable(pod: Pod, followed: set[str]) -> bool:
    return pods.has_ended(pod) and pod["metadata"]["labels"].get(names.LAUNCH) not in followed


def _place(row: LaunchRow) -> PodPlace:
    return PodPlace.model_validate(row.place)


def _key(place: PodPlace) -> PlaceKey:
    return place.connection, place.namespace, place.deployment


def _host(handle: Mapping[str, object] | None) -> str:
    return str((handle or {}).get("namespace", ""))
