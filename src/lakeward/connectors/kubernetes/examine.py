"""What the API of Kubernetes says about the places of drivers, asked without changing anything: for `doctor` and
`config validate --deep`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakeward.connectors.cluster.resolve import resolved
from lakeward.connectors.driver_place import Answer, of_error
from lakeward.connectors.kubernetes.access import HOW
from lakeward.connectors.kubernetes.client import Apis
from lakeward.platform.errors import LakewardError, expect
from lakeward.spec.model.driver_conf import pod
from lakeward.spec.model.settings import Settings

VERBS = ("create", "get", "list", "delete")


def examine(settings: Settings, connections: Path | None) -> Iterator[Answer]:
    """One answer for each driver on Kubernetes: version, namespace, rights."""
    apis = Apis(connections)
    for name in settings.drivers:
        if settings.driver(name).backend != "kubernetes":
            continue
        where = f"pods of driver {name}"
        try:
            place = expect(pod([], resolved(str(name), settings, connections)), "the pod of a driver on Kubernetes")
            where = f"namespace {place.namespace}, pods of driver {name}"
            api = apis.of(place)
            version, phase = api.version(), api.namespace(place.namespace)
            refused = api.allowed(place.namespace, VERBS)
        except LakewardError as error:
            yield of_error(name, where, error)
            continue
        if phase is None or phase == "Terminating":
            found = f"Kubernetes {version} has no namespace {place.namespace}{' that lasts' if phase else ''}"
            yield Answer(name, where, found, f"kubectl create namespace {place.namespace}")
        elif refused:
            found = f"Kubernetes {version} does not allow {', '.join(refused)} of pods in {place.namespace}"
            yield Answer(
                name, where, found, f"kubectl apply -k deploy/kubernetes, or give the rights of its Role ({HOW})"
            )
        else:
            yield Answer(name, where, f"Kubernetes {version} allows {', '.join(VERBS)}")
