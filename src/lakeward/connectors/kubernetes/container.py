"""What the containers of drivers and of executors have in common: command, Secrets, and rules of security. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.platform.runtime import Launch, PodPlace

PYTHON = "spark.pyspark.python"
SECRETS_FOLDER = "LAKEWARD_SECRETS_FOLDER"
"""Variable with the folder in which each Secret of a driver's entry is mounted."""
RULES: Mapping[str, Any] = {
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
POD_RULES: Mapping[str, Any] = {
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "securityContext": {"runAsNonRoot": True},
}
Volumes = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Volumes of a pod, and where its container has them."""


def command(launch: Launch, program: str, *arguments: str) -> list[str]:
    """A module of Lakeward, run by the Python of the image."""
    return [launch.conf.get(PYTHON, "python"), "-m", program, *arguments]


def work() -> Volumes:
    """The folder of a container alone."""
    return [{"name": "work", "emptyDir": {}}], [{"name": "work", "mountPath": PodPlace.WORK}]


def secret(volume: str, name: str, path: str, key: str | None = None) -> Volumes:
    """A Secret, or one key of it, as files of a folder.

    They are readable by every user of the container, which has one and does not own the files.
    """
    chosen = {} if key is None else {"items": [{"key": key, "path": key}]}
    source = {"secretName": name, "defaultMode": 0o444, **chosen}
    return [{"name": volume, "secret": source}], [{"name": volume, "mountPath": path, "readOnly": True}]


def secrets(place: PodPlace) -> list[Volumes]:
    """The Secrets of a driver's entry. The program of the container copies them for itself alone."""
    return [secret(f"secret-{number}", name, f"{PodPlace.SECRETS}/{name}") for number, name in enumerate(place.secrets)]


def joined(parts: list[Volumes]) -> dict[str, list[dict[str, Any]]]:
    """All volumes, and all mounts."""
    return {
        "volumes": [each for volumes, _ in parts for each in volumes],
        "mounts": [each for _, mounts in parts for each in mounts],
    }
