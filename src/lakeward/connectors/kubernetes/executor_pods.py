"""Executors as pods: what the pod of their driver needs, the Spark conf of the driver, and the template of their pods.

The driver is in client mode, and Spark in it creates, watches and deletes the pods of its executors. They have the
image of the driver, and its Secrets, but nothing of the registry. They belong to the driver's pod: Kubernetes removes
them with it. See docs/adr/0117.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lakeward import jars
from lakeward.connectors.iceberg import catalog
from lakeward.connectors.kubernetes import access, container, names, pending
from lakeward.connectors.kubernetes.client import Api
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Launch, PodPlace, Runtime
from lakeward.spec.model.driver_conf import IN_CLUSTER

PROGRAM = "lakeward.driver.executor_pod"
CONTAINER = "executor"
VERBS = ("create", "get", "list", "watch", "delete", "deletecollection")
"""What Spark does with pods."""
ADDRESS, API, AUTHENTICATION = "LAKEWARD_POD_IP", "LAKEWARD_API_FOLDER", "LAKEWARD_SPARK_SECRET_FILE"
PATHS = "LAKEWARD_SECRETS"
"""Variable with the paths of the Secrets of a driver's entry, as JSON: name -> folder."""
AUTHENTICATION_KEY = "spark.secret"
"""Key of the Secret with the registry's address: by it driver and executors know each other."""
_API, _AUTHENTICATION = "/etc/lakeward/api", "/etc/lakeward/spark"
_EXECUTOR = pending.Part("an executor", CONTAINER, "executors smaller (executors: {memory:, cores:} of the driver)")
_TOKEN_S = 3600
_RENEWED = "KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN"
"""Variable of Spark's client of the API: a file that it reads again when a token is refused or old."""


def used(launch: Launch) -> bool:
    """Whether the driver of a launch has executors in pods."""
    return launch.conf.get("spark.master") == IN_CLUSTER


def driver_volumes(place: PodPlace) -> list[container.Volumes]:
    """What a driver's pod has for its executors: access to the API, which the node renews, and their common secret."""
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_S}}
    trust = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    api = {"name": "api", "projected": {"defaultMode": 0o444, "sources": [token, trust]}}
    return [([api], [{"name": "api", "mountPath": _API, "readOnly": True}]), _authentication(place)]


def driver_environment() -> list[dict[str, Any]]:
    """Variables of a driver's pod."""
    return [
        {"name": ADDRESS, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        {"name": API, "value": _API},
        {"name": _RENEWED, "value": f"{_API}/token"},
        {"name": AUTHENTICATION, "value": f"{_AUTHENTICATION}/{AUTHENTICATION_KEY}"},
    ]


def conf(launch: Launch, place: PodPlace, here: str, template_file: Path) -> dict[str, str]:
    """The Spark conf of a driver with executors in pods, without secrets.

    Args:
        here: the address of the driver's pod.
        template_file: where `template` was written.
    """
    folder, host, port = _api()
    name = names.pod_name(launch.driver, launch.id)
    return {
        "spark.master": f"k8s://{access.server(host, port)}",
        "spark.driver.host": here,
        "spark.driver.bindAddress": here,
        "spark.kubernetes.namespace": place.namespace,
        "spark.kubernetes.driver.pod.name": name,
        "spark.kubernetes.authenticate.caCertFile": str(folder / "ca.crt"),
        "spark.kubernetes.container.image": place.image,
        "spark.kubernetes.executor.podNamePrefix": name,
        "spark.kubernetes.executor.podTemplateFile": str(template_file),
        "spark.kubernetes.executor.podTemplateContainerName": CONTAINER,
        # What these would keep needs rights on ConfigMaps, Services and PersistentVolumeClaims.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        # The network of a cluster is open to its pods: who has not this secret is neither driver nor executor.
        "spark.authenticate": "true",
        "spark.authenticate.secret.driver.file": os.environ[AUTHENTICATION],
        "spark.authenticate.secret.executor.file": f"{_AUTHENTICATION}/{AUTHENTICATION_KEY}",
        "spark.executor.extraClassPath": os.pathsep.join(map(str, _libraries(launch.runtime))),
        **{f"spark.executorEnv.{name}": value for name, value in catalog.variables_of(launch.runtime.lake).items()},
    }


def template(launch: Launch, place: PodPlace) -> dict[str, Any]:
    """The template of an executor's pod. Spark adds name, image, size, arguments and its own variables."""
    given = container.joined([container.work(), *container.secrets(place), _authentication(place)])
    described = {
        "name": CONTAINER,
        "command": container.command(launch, PROGRAM),
        "workingDir": PodPlace.WORK,
        "env": [
            {"name": container.SECRETS_FOLDER, "value": PodPlace.SECRETS},
            {"name": PATHS, "value": json.dumps(place.secrets)},
            {"name": AUTHENTICATION, "value": f"{_AUTHENTICATION}/{AUTHENTICATION_KEY}"},
        ],
        "volumeMounts": given["mounts"],
        **container.RULES,
    }
    spec = {"containers": [described], "volumes": given["volumes"], **container.POD_RULES}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": names.executor_labels(launch)}, "spec": spec}


def require_rights(place: PodPlace) -> None:
    """Ask the API whether this pod may create executors: Spark itself would wait for them without a word.

    Raises:
        DependencyDown: it may not, or the API cannot be asked.
    """
    refused = _own_api().allowed(place.namespace, VERBS)
    if refused:
        account = place.service_account or "default"
        raise DependencyDown(
            f"The service account {account} of a driver may not {', '.join(refused)} pods, as its executors need it",
            why=f"namespace {place.namespace}, by a SelfSubjectAccessReview",
            next=f"kubectl apply -k deploy/kubernetes/executors, or give these rights to {account} ({access.HOW})",
            code="LW-2577",
        )


def unstarted(launch: Launch) -> DependencyDown | None:
    """Why an executor of this driver has not started.

    None: each of them has, Spark has made none, they are no pods, or the API does not answer.
    """
    if launch.pod is None or not used(launch):
        return None
    selector = ",".join(f"{label}={value}" for label, value in names.executor_labels(launch).items())
    try:
        found = _own_api().pods(launch.pod.namespace, selector).by_name
    except (LakewardError, OSError):
        return None  # it only adds the cause to another error
    waiting = (pod for pod in found.values() if (pod.get("status") or {}).get("phase") == "Pending")
    return next((pending.why(pod, _EXECUTOR) for pod in waiting), None)


def _own_api() -> Api:
    """The API by the service account of this pod."""
    folder, host, port = _api()
    return Api(access.of_service_account(host, port, folder=folder))


def _authentication(place: PodPlace) -> container.Volumes:
    """One key of the registry's Secret: executors see no address and no password of the registry."""
    return container.secret("authentication", place.registry_secret, _AUTHENTICATION, AUTHENTICATION_KEY)


def _api() -> tuple[Path, str, str]:
    """The folder of the login, and host and port of the API, as the node gives them to each container."""
    environment = os.environ
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    return Path(environment[API]), host, port


def _libraries(runtime: Runtime) -> list[Path]:
    """The jars of executors: the image has them under the paths of the driver, which serves those of Lakeward."""
    return [*jars.spark_classpath(runtime.jars), *catalog.libraries(runtime.lake, runtime.jars)]
