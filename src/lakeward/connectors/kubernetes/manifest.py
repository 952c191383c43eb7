"""The pod of a driver: one container that runs the driver, with its JVM, until it ends. Pure.

Its name and labels follow from the launch. It has the launch's id alone: no token, password or address. The registry's
address and password come from a Secret that the cluster's administrator made.
"""

from __future__ import annotations

from typing import Any

from lakeward.connectors.kubernetes import container, executor_pods, names
from lakeward.platform.runtime import Launch, PodPlace

WORK, REGISTRY, SECRETS = PodPlace.WORK, PodPlace.REGISTRY, PodPlace.SECRETS
CONTAINER, PROGRAM = "driver", "lakeward.driver.pod"
DRAIN_S = 120
"""Grace period of a pod that somebody else ends, e.g. when its node is drained: a batch may finish."""


def document(launch: Launch, place: PodPlace) -> dict[str, Any]:
    """The pod of a launch."""
    parts = [container.work(), container.secret("registry", place.registry_secret, REGISTRY), *container.secrets(place)]
    more = []
    if executor_pods.used(launch):
        parts += executor_pods.driver_volumes(place)
        more = executor_pods.driver_environment()
    given = container.joined(parts)
    described = {
        "name": CONTAINER,
        "image": place.image,
        "command": container.command(launch, PROGRAM, launch.id),
        "workingDir": WORK,
        "env": [
            {"name": "LAKEWARD_REGISTRY_URL_FILE", "value": f"{REGISTRY}/registry.url"},
            {"name": "PGPASSFILE", "value": f"{REGISTRY}/pgpass"},
            {"name": container.SECRETS_FOLDER, "value": SECRETS},
            *(
                {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
                for name, path in (("LAKEWARD_POD_UID", "metadata.uid"), ("LAKEWARD_NODE", "spec.nodeName"))
            ),
            *more,
        ],
        "resources": {
            "requests": {"cpu": str(place.cores), "memory": f"{place.memory_mib}Mi"},
            "limits": {"memory": f"{place.memory_mib}Mi"},
        },
        "volumeMounts": given["mounts"],
        **container.RULES,
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",  # who starts a driver again is decided by reconcile alone
        "terminationGracePeriodSeconds": DRAIN_S,
        "containers": [described],
        "volumes": given["volumes"],
        **container.POD_RULES,
    }
    if place.service_account is not None:
        spec["serviceAccountName"] = place.service_account
    metadata = {
        "name": names.pod_name(launch.driver, launch.id),
        "namespace": place.namespace,
        "labels": names.driver_labels(launch, place),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
