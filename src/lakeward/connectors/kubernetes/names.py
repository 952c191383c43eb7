"""Names and labels of pods: they follow from the launch of a driver. Pure."""

from __future__ import annotations

import hashlib
import re

from lakeward.platform.runtime import Launch, PodPlace

MANAGED, DEPLOYMENT = "app.kubernetes.io/managed-by", "lakeward.io/deployment"
DRIVER, LAUNCH, TOKEN = "lakeward.io/driver", "lakeward.io/launch", "lakeward.io/token-digest"
_KIND = "app.kubernetes.io/name"
_NAME_LENGTH = 40


def pod_name(driver: str, launch: str) -> str:
    """The name of a launch's pod: a DNS label that people recognise."""
    slug = re.sub(r"[^a-z0-9]+", "-", driver.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    return f"lakeward-{slug}-{launch}" if slug else f"lakeward-{launch}"


def digest(token: str) -> str:
    """What a label says about a token, from which it cannot be found."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def selector(place: PodPlace) -> str:
    """The pods of the drivers of a deployment."""
    return f"{MANAGED}=lakeward,{DEPLOYMENT}={place.deployment}"


def driver_labels(launch: Launch, place: PodPlace) -> dict[str, str]:
    """The labels of a driver's pod."""
    return {
        **_labels(launch, "lakeward-driver"),
        DEPLOYMENT: place.deployment,
        TOKEN: digest(launch.token),
    }


def executor_labels(launch: Launch) -> dict[str, str]:
    """The labels of the executors of a launch. `selector` does not select them."""
    return _labels(launch, "lakeward-executor")


def _labels(launch: Launch, kind: str) -> dict[str, str]:
    return {_KIND: kind, MANAGED: "lakeward", DRIVER: launch.driver.strip("-_"), LAUNCH: launch.id}
