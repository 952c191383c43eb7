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

    def __init__(self, local: Backend, cluster: Backend) -> None:
        self._local, self._cluster = local, cluster

    def start(self, launch: Launch) -> Job:
        """Start it where it belongs."""
        return (self._local if launch.cluster is None else self._cluster).start(launch)

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The launches of both."""
        there = [item for item in known if _on_cluster(item.handle)]
        here = [item for item in known if not _on_cluster(item.handle)]
        return [*self._local.find(here), *self._there(there)]

    def stop(self, job: Job, *, grace_s: float) -> bool:
        return self._of(job).stop(job, grace_s=grace_s)

    def kill(self, job: Job) -> bool:
        return self._of(job).kill(job)

    def dump(self, job: Job) -> str | None:
        return self._of(job).dump(job)

    def _there(self, known: Sequence[Known]) -> list[Job]:
        try:
            return self._cluster.find(known)
        except DependencyDown as error:
            log.warning("backend not available", backend=self._cluster.name, error=error.what, why=error.why)
            return [
                Job(item.driver, item.token, Life.UNKNOWN, item.handle, str(item.handle.get("master", "")), item.log)
                for item in known
            ]

    def _of(self, job: Job) -> Backend:
        return self._cluster if _on_cluster(job.handle) else self._local


def _on_cluster(handle: Handle | None) -> bool:
    return handle is not None and "submission" in handle
