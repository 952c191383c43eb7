"""The pod of a driver: one container that runs the driver, with its JVM, until it ends. Pure.

Its name and labels follow from the launch. It has the launch's id alone: no token, password or address. The registry's
address and password come from a Secret that the cluster's administrator made.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from lakeward.platform.runtime import Launch, PodPlace

MANAGED, DEPLOYMENT = "app.kubernetes.io/managed-by", "lakeward.io/deployment"
DRIVER, LAUNCH, TOKEN = "lakeward.io/driver", "lakeward.io/launch", "lakeward.io/token-digest"
WORK, REGISTRY, SECRETS = PodPlace.WORK, PodPlace.REGISTRY, PodPlace.SECRETS
CONTAINER, PROGRAM = "driver", "lakeward.driver.pod"
PYTHON = "spark.pyspark.python"
DRAIN_S = 120
"""Grace period of a pod that somebody else ends, e.g. when its node is drained: a batch may finish."""
_NAME_LENGTH = 40


def pod_name(driver: str, launch: str) -> str:
    """The name of a launch's pod: a DNS label that people recognise."""
    slug = re.sub(r"[^a-z0-9]+", "-", driver.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    return f"lakeward-{slug}-{launch}" if slug else f"lakeward-{launch}"


def digest(token: str) -> str:
    """What a label says about a token, from which it cannot be found."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def selector(place: PodPlace) -> str:
    """The pods of a deployment."""
    return f"{MANAGED}=lakeward,{DEPLOYMENT}={place.deployment}"


def document(launch: Launch, place: PodPlace) -> dict[str, Any]:
    """The pod of a launch."""
    volumes: list[dict[str, Any]] = [{"name": "work", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [{"name": "work", "mountPath": WORK}]
    # Readable by every user of the container, which has one and does not own the files. The driver
    # copies them for itself alone.
    given = [(place.registry_secret, REGISTRY), *((name, f"{SECRETS}/{name}") for name in place.secrets)]
    for number, (name, path) in enumerate(given):
        volumes.append({"name": f"secret-{number}", "secret": {"secretName": name, "defaultMode": 0o444}})
        mounts.append({"name": f"secret-{number}", "mountPath": path, "readOnly": True})
    container = {
        "name": CONTAINER,
        "image": place.image,
        "command": [launch.conf.get(PYTHON, "python"), "-m", PROGRAM, launch.id],
        "workingDir": WORK,
        "env": [
            {"name": "LAKEWARD_REGISTRY_URL_FILE", "value": f"{REGISTRY}/registry.url"},
            {"name": "PGPASSFILE", "value": f"{REGISTRY}/pgpass"},
            {"name": "LAKEWARD_SECRETS_FOLDER", "value": SECRETS},
            *(
                {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
                for name, path in (("LAKEWARD_POD_UID", "metadata.uid"), ("LAKEWARD_NODE", "spec.nodeName"))
            ),
        ],
        "resources": {
            "requests": {"cpu": str(place.cores), "memory": f"{place.memory_mib}Mi"},
            "limits": {"memory": f"{place.memory_mib}Mi"},
        },
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",  # who starts a driver again is decided by reconcile alone
        "terminationGracePeriodSeconds": DRAIN_S,
        "automountServiceAccountToken": False,  # a driver does not call the API
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True},
        "containers": [container],
        "volumes": volumes,
    }
    if place.service_account is not None:
        spec["serviceAccountName"] = place.service_account
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(launch, place), "spec": spec}


def _metadata(launch: Launch, place: PodPlace) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": "lakeward-driver",
        MANAGED: "lakeward",
        DEPLOYMENT: place.deployment,
        DRIVER: launch.driver.strip("-_"),
        LAUNCH: launch.id,
        TOKEN: digest(launch.token),
    }
    return {"name": pod_name(launch.driver, launch.id), "namespace": place.namespace, "labels": labels}
