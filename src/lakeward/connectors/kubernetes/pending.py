"""Why a pod has not started, in the words of the cluster. Pure.

The API says it of the pods of drivers, and of those of their executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.kubernetes.client import Pod
from lakeward.platform.errors import DependencyDown

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}


@dataclass(frozen=True)
class Part:
    """What a pod is for.

    Attributes:
        name: with its article.
        container: the name of its container; a cluster may add others.
        smaller: how to make it smaller.
    """

    name: str
    container: str
    smaller: str


def why(pod: Pod, part: Part) -> DependencyDown:
    """Why a pod has not started, as the error that it becomes if that lasts."""
    name, space = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    look = f"kubectl describe pod {name} -n {space}"
    waits = ((container(pod, part.container).get("state") or {}).get("waiting")) or {}
    reason, message = str(waits.get("reason") or ""), str(waits.get("message") or "")
    text = joined(reason, message)
    if reason in _IMAGE:
        return DependencyDown(
            f"Kubernetes cannot get the image of {part.name}", why=text,
            next=f"correct image: of the driver in conf/lakeward.yaml, or give its node access; {look}", code="LW-2558",
        )  # fmt: skip
    if reason in _CONFIG:
        return DependencyDown(
            f"Kubernetes cannot configure the container of {part.name}", why=text,
            next=f"create the Secret that it names, or correct the driver's entry; {look}", code="LW-2560",
        )  # fmt: skip
    unscheduled = condition(pod, "PodScheduled")
    if unscheduled.get("status") == "False":
        return DependencyDown(
            f"Kubernetes has no room for {part.name}", code="LW-2559",
            why=joined(str(unscheduled.get("reason") or ""), str(unscheduled.get("message") or "")),
            next=f"add nodes, or make {part.smaller}; {look}",
        )  # fmt: skip
    return DependencyDown(
        f"Kubernetes has not started the pod of {part.name}", why=text or "its node has not reported about it",
        next=look, code="LW-2561",
    )  # fmt: skip


def container(pod: Pod, name: str) -> Mapping[str, Any]:
    """The state of a container; empty before there is one."""
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each for each in found if each.get("name") == name), {})


def condition(pod: Pod, kind: str) -> Mapping[str, Any]:
    """A condition of a pod; empty if it has none of this kind."""
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), {})


def joined(reason: str, message: str) -> str:
    """Reason and message of the cluster in one line."""
    return ": ".join(part for part in (reason, " ".join(message.split())) if part)
