"""The backends of a deployment behind one: each launch and each job goes to the backend that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Launch
from lakeward.registry.drivers import Handle
from lakeward.supervision.backends.base import Backend, Job, Known, Life

log = structlog.get_logger(__name__)


class Backends:
    """Local drivers, and drivers on clusters. One that cannot be asked makes only its own drivers unknown."""

    name = "local"

    def __init__(self, local: Backend, standalone: Backend, kubernetes: Backend, yarn: Backend) -> None:
        self._local, self._standalone, self._kubernetes, self._yarn = local, standalone, kubernetes, yarn

    def start(self, launch: Launch) -> Job:
        """Start it where it belongs."""
        if launch.pod is not None:
            return self._kubernetes.start(launch)
        if launch.yarn is not None:
            return self._yarn.start(launch)
        return (self._local if launch.cluster is None else self._standalone).start(launch)

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The launches of all of them."""
        mine = [[item for item in known if self._of(item.handle) is each] for each in self._all]
        there = zip(self._all[1:], mine[1:], strict=True)
        return [*self._local.find(mine[0]), *(job for each, items in there for job in _asked(each, items))]

    def stop(self, job: Job, *, grace_s: float) -> bool:
        return self._of(job.handle).stop(job, grace_s=grace_s)

    def kill(self, job: Job) -> bool:
        return self._of(job.handle).kill(job)

    def dump(self, job: Job) -> str | None:
        return self._of(job.handle).dump(job)

    @property
    def _all(self) -> tuple[Backend, Backend, Backend, Backend]:
        return self._local, self._standalone, self._kubernetes, self._yarn

    def _of(self, handle: Handle | None) -> Backend:
        found = handle or {}
        if "pod" in found:
            return self._kubernetes
        if "application" in found:
            return self._yarn
        return self._standalone if "submission" in found else self._local


def _asked(cluster: Backend, known: Sequence[Known]) -> list[Job]:
    try:
        return cluster.find(known)
    except DependencyDown as error:
        log.warning("backend not available", backend=cluster.name, error=error.what, why=error.why)
        return [
            Job(item.driver, item.token, Life.UNKNOWN, item.handle, _place(item.handle), item.log) for item in known
        ]


def _place(handle: Handle) -> str:
    return str(handle.get("master") or handle.get("namespace") or handle.get("application") or "")
