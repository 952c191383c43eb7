"""What a ResourceManager says about the places of drivers: for `doctor` and `config validate --deep`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lakeward.connectors.cluster.resolve import resolved
from lakeward.connectors.driver_place import Answer, of_error
from lakeward.connectors.yarn.client import Queue, ResourceManager
from lakeward.connectors.yarn.site import HOW, settled
from lakeward.platform.errors import LakewardError, expect
from lakeward.spec.model.driver_conf import yarn
from lakeward.spec.model.settings import Settings


def examine(settings: Settings, connections: Path | None) -> Iterator[Answer]:
    """One answer for each driver on YARN: version, and whether its queue is there and runs."""
    for name in settings.drivers:
        if settings.driver(name).backend != "yarn":
            continue
        where = f"driver {name}"
        try:
            requested = yarn(resolved(str(name), settings, connections))
            place = settled(expect(requested, "the place of a driver on YARN"))
            where = f"queue {place.queue}, driver {name}"
            manager = ResourceManager(place.resource_managers)
            version, queues = manager.version(), manager.queues()
        except LakewardError as error:
            yield of_error(name, where, error)
            continue
        yield _of_queue(name, where, version, str(place.queue), queues)


def _of_queue(name: str, where: str, version: str, queue: str, queues: Sequence[Queue]) -> Answer:
    found = next((each for each in queues if queue in (each.name, each.name.rpartition(".")[2])), None)
    usable = ", ".join(each.name for each in queues if each.leaf and each.state == "RUNNING") or "none"
    change = f"correct queue: in conf/lakeward.yaml; queues that run: {usable}"
    if found is None:
        return Answer(name, where, f"YARN {version} has no queue {queue}", change)
    if not found.leaf:
        return Answer(name, where, f"YARN {version}: {queue} has other queues below it, and takes no drivers", change)
    if found.state != "RUNNING":
        return Answer(
            name, where, f"YARN {version}: the queue {queue} is {found.state}", f"start it ({HOW}), or {change}"
        )
    return Answer(name, where, f"YARN {version}, the queue runs")
