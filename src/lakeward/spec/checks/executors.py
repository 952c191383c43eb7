"""Executors: checks of a driver's entry, of a stream, and of the two together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakeward.platform.runtime import PodPlace
from lakeward.spec.checks import spark_conf
from lakeward.spec.checks.project import ProjectFinding
from lakeward.spec.model.settings import MAINTENANCE, Driver, Settings
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.messages import Finding

HOW = "docs/how-to/run-on-a-spark-cluster.md"
PODS = "docs/how-to/run-drivers-on-kubernetes.md"
YARN = "docs/how-to/run-drivers-on-yarn.md"
_OF_STANDALONE = ("deploy_mode", "master", "rest", "ui", "authenticate")
_OF_CLUSTER_MODE = ("rest", "ui")
_OF_KUBERNETES = ("image", "namespace", "service_account", "registry_secret", "secrets")
_OF_YARN = ("queue", "hadoop_conf", "resource_manager")


def has_executors(driver: Driver) -> bool:
    """Whether tasks of a driver run on executors. On Kubernetes its entry decides: executors need rights there."""
    return driver.backend in ("standalone", "yarn") or (driver.backend == "kubernetes" and driver.executors is not None)


def driver_findings(name: str, driver: Driver) -> Iterator[Finding]:
    """Problems of one entry of `drivers:`."""
    standalone = driver.backend == "standalone"
    spread = has_executors(driver)
    if standalone and driver.master is None and driver.connection is None:
        message = "backend standalone needs the address of its master: spark://HOST:PORT, or a connection that has it"
        yield Finding(("drivers", name), message, "standalone", missing=True, about=("master",))
    if driver.backend == "local":
        for key in (*_OF_STANDALONE, "executors"):
            if key in driver.model_fields_set:
                message = f"{key} needs backend: standalone; a local driver runs all tasks in its own process"
                yield Finding(("drivers", name, key), message, key, key=True)
    if driver.backend == "kubernetes":
        yield from _pod(name, driver)
    if driver.backend == "yarn":
        yield from _on_yarn(name, driver)
    yield from _of_others(name, driver)
    of_the_connection = driver.connection is not None and "deploy_mode" not in driver.model_fields_set
    if driver.deploy_mode == "client" and standalone and not of_the_connection:
        for key in _OF_CLUSTER_MODE:
            if key in driver.model_fields_set:
                message = f"{key} needs deploy_mode: cluster; a driver in client mode is not submitted"
                yield Finding(("drivers", name, key), message, key, key=True)
    if driver.deploy_mode == "cluster" and driver.backend != "yarn":
        yield from _cluster_mode(name, driver)
    if name == MAINTENANCE and driver.executors is not None and driver.executors.by == "lag":
        message = "by: lag is for drivers of streams; maintenance has no lag: leave it out"
        yield Finding(("drivers", name, "executors", "by"), message, "lag")
    if spread and driver.backend != "kubernetes" and "cores" in driver.model_fields_set:
        message = "cores has no effect here: executors run the tasks; use executors: {cores: ..}"
        yield Finding(("drivers", name, "cores"), message, str(driver.cores), key=True, warning=True)
    for key in driver.spark:
        at = ("drivers", name, "spark", key)
        if refused := spark_conf.refusal(key, whole_driver=True):
            yield Finding(at, refused, key, key=True)
        elif words := _own_key(driver, key):
            yield Finding(at, f"write this as {words}, in the driver's own keys", key, key=True)
        elif useless := spark_conf.ineffective(key, driver.backend if spread else None):
            yield Finding(at, useless, key, key=True, warning=True)


def _own_key(driver: Driver, key: str) -> str | None:
    """The key of its entry that replaces a setting of Spark."""
    if driver.backend == "kubernetes":
        return spark_conf.given_for_pods(key, executors=driver.executors is not None)
    if driver.backend == "yarn":
        return spark_conf.given_for_yarn(key)
    return spark_conf.given_elsewhere(key) if driver.backend == "standalone" else None


def _of_others(name: str, driver: Driver) -> Iterator[Finding]:
    """Keys of another backend than the driver's."""
    of = [(key, "kubernetes", "this driver has no pod") for key in _OF_KUBERNETES if driver.backend != "kubernetes"]
    of += [(key, "yarn", "this driver is not submitted to YARN") for key in _OF_YARN if driver.backend != "yarn"]
    if driver.backend == "local":
        of.append(("connection", "standalone, yarn or kubernetes", "a local driver has no cluster to reach"))
    for key, backend, why in of:
        if key in driver.model_fields_set:
            yield Finding(("drivers", name, key), f"{key} needs backend: {backend}; {why}", key, key=True)


def _on_yarn(name: str, driver: Driver) -> Iterator[Finding]:
    """What a driver on YARN cannot have."""
    for key in ("master", "rest", "ui", "authenticate"):
        if key in driver.model_fields_set:
            message = f"{key} needs backend: standalone; YARN's addresses are in its own files ({YARN})"
            yield Finding(("drivers", name, key), message, key, key=True)
    if driver.deploy_mode == "client" and "deploy_mode" in driver.model_fields_set:
        message = f"a driver on YARN runs in cluster mode: leave deploy_mode out ({YARN})"
        yield Finding(("drivers", name, "deploy_mode"), message, "client")
    if name == MAINTENANCE:
        message = "backend: yarn is for drivers of streams; maintenance runs with Airflow: write local or standalone"
        yield Finding(("drivers", name, "backend"), message, "yarn")


def _pod(name: str, driver: Driver) -> Iterator[Finding]:
    """What the pod of a driver needs, and cannot have."""
    for key in _OF_STANDALONE:
        if key in driver.model_fields_set:
            always = "; executors in pods always authenticate" if key == "authenticate" else ""
            message = f"{key} needs backend: standalone; a driver on Kubernetes is one pod{always} ({PODS})"
            yield Finding(("drivers", name, key), message, key, key=True)
    if driver.image is None:
        message = f"backend kubernetes needs the image of the driver's pod: REGISTRY/NAME:TAG ({PODS})"
        yield Finding(("drivers", name), message, "kubernetes", missing=True, about=("image",))
    if name == MAINTENANCE:
        message = "backend: kubernetes is for drivers of streams; maintenance runs beside Airflow: write local"
        yield Finding(("drivers", name, "backend"), message, "kubernetes")
    for path in driver.secrets.values():
        if path == PodPlace.WORK or str(path).startswith(("/etc/lakeward", f"{PodPlace.WORK}/")):
            message = f"{path} is used by Lakeward itself in the pod: choose another path"
            yield Finding(("drivers", name, "secrets"), message, str(path))


def _cluster_mode(name: str, driver: Driver) -> Iterator[Finding]:
    """What a driver that a worker starts cannot have."""
    if driver.authenticate:
        message = (
            "authenticate is not supported with deploy_mode: cluster: Spark's REST gateway asks for no secret; "
            f"use deploy_mode: client, or protect the gateway by the network ({HOW})"
        )
        yield Finding(("drivers", name, "authenticate"), message, "authenticate", key=True)
    if name == MAINTENANCE:
        message = "deploy_mode: cluster is for drivers of streams; maintenance runs beside Airflow: write client"
        yield Finding(("drivers", name, "deploy_mode"), message, "deploy_mode", key=True)


def executor_findings(streams: Sequence[StreamSpec], settings: Settings) -> Iterator[ProjectFinding]:
    """Streams whose driver has no executors or different ones, and features that do not run on executors."""
    first: dict[str, StreamSpec] = {}
    for spec in streams:
        driver = settings.driver(spec.driver)
        executors = spec.resources.executors
        if not has_executors(driver):
            if executors is not None:
                how = f"declare it under drivers: in conf/lakeward.yaml with backend: standalone and its master ({HOW})"
                if driver.backend == "kubernetes":
                    how = f"write executors: in its entry in conf/lakeward.yaml ({PODS})"
                message = f"driver {spec.driver} runs all tasks in its own process; for executors {how}"
                yield ProjectFinding(spec.id, ("resources", "executors"), message, key=True)
            continue
        if executors is not None and driver.executors is not None:
            message = f"driver {spec.driver} is declared in conf/lakeward.yaml; set its executors there"
            yield ProjectFinding(spec.id, ("resources", "executors"), message, key=True)
        elif executors is not None:
            other = first.setdefault(spec.driver, spec)
            if other.resources.executors != executors:
                message = (
                    f"stream {other.id} shares driver {spec.driver} and requests other executors; set them once, under "
                    "drivers: in conf/lakeward.yaml"
                )
                yield ProjectFinding(spec.id, ("resources", "executors"), message, key=True)
        yield from _not_there(spec)


def _not_there(spec: StreamSpec) -> Iterator[ProjectFinding]:
    """Features that are not supported on a driver with executors."""
    where = f"with executors, as driver {spec.driver} has them"
    if spec.trigger.unbatched:
        message = f"not yet: {spec.trigger.kind} {where}: it was only ever run in one process; give it a local driver"
        yield ProjectFinding(spec.id, ("trigger",), message, str(spec.trigger.kind))
    if spec.sink.postgres:
        message = (
            f"not yet: PostgreSQL as a sink {where}: the driver hands over files that tasks write on its own disk; "
            "give it a local driver"
        )
        yield ProjectFinding(spec.id, ("sink", "postgres"), message)
