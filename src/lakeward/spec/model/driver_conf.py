"""Spark conf of a driver, from the requests of its streams and the settings of the project."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from lakeward.platform.errors import expect
from lakeward.platform.runtime import ClusterPlace, PodPlace, YarnPlace
from lakeward.spec.checks.spark_conf import local
from lakeward.spec.model.settings import Driver as DriverSettings
from lakeward.spec.model.stream import Executors
from lakeward.spec.model.types import Duration, Memory

# Java reserves a fifth of the code cache when its second compiler is off, and Spark compiles new code for every query:
# 48 MB were full after three minutes, and a JVM with a full code cache ends its Spark context.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
IDLE_S = 120
_MIB = 1024 * 1024
BESIDE_HEAP = 0.4
"""Memory of a pod beyond the heap of its JVM, as Spark reckons for Python on Kubernetes."""
LEAST_EXECUTORS, MOST_EXECUTORS = "spark.lakeward.executors.min", "spark.lakeward.executors.max"
"""Bounds within which the driver itself asks for executors (`executors: {by: lag}`). Spark does not know these keys."""
IN_CLUSTER = "k8s://https://kubernetes.default.svc"
"""`spark.master` of a launch whose executors are pods; its driver puts the address that its node gives."""
IDLE_TRIGGERS = 3
"""An executor is released after `IDLE_S` without a task, and after this many trigger intervals. Released after each
batch, it would have to start and download its jars before the next one."""


def conf(specs: Iterable[Mapping[str, Any]], settings: DriverSettings | None = None) -> dict[str, str]:
    """The conf of one Spark application that hosts these streams: the largest requested value of each kind wins.

    Args:
        specs: resolved specs of the streams it hosts.
        settings: the driver in `conf/lakeward.yaml`, with what its connection says; its values are the minimum.
    """
    base = settings or DriverSettings()
    hosted = list(specs)
    cores, memory = _size(hosted, base)
    wished = {str(key): str(value) for key, value in base.spark.items()}
    if base.compiler == "quick":
        wished["spark.driver.extraJavaOptions"] = QUICK
    cluster = _cluster(base)
    master = {"spark.master": local(cores)} if cluster is None else _spread(hosted, base, cluster)
    return {**master, "spark.driver.memory": str(memory), **wished}


def place(settings: DriverSettings) -> ClusterPlace | None:
    """Where a driver in cluster mode is submitted; None for a driver that is a process of this machine."""
    if settings.backend != "standalone" or settings.deploy_mode != "cluster" or settings.master is None:
        return None
    rest, ui = (None if address is None else str(address) for address in (settings.rest, settings.ui))
    return ClusterPlace(master=str(settings.master), rest=rest, ui=ui)


def yarn(settings: DriverSettings) -> YarnPlace | None:
    """Where a driver is submitted on YARN; None for another driver."""
    if settings.backend != "yarn":
        return None
    queue, folder = (None if each is None else str(each) for each in (settings.queue, settings.hadoop_conf))
    addresses = tuple(str(settings.resource_manager).split(",")) if settings.resource_manager is not None else ()
    return YarnPlace(queue=queue, hadoop_conf=folder, resource_managers=addresses)


def pod(specs: Iterable[Mapping[str, Any]], settings: DriverSettings) -> PodPlace | None:
    """The pod of a driver on Kubernetes; None for another driver. Its memory is that of the JVM and, as Spark reckons
    for Python on Kubernetes, two fifths more, 384 MiB at least."""
    if settings.backend != "kubernetes" or settings.image is None:
        return None
    cores, memory = _size(list(specs), settings)
    heap = memory.bytes / _MIB
    base = {str(key): value for key, value in settings.spark.items()}
    given = base.get("spark.driver.memoryOverhead")
    overhead = max(384.0, BESIDE_HEAP * heap) if given is None else _mib(str(given))
    return PodPlace(
        connection=settings.connection and str(settings.connection), namespace=str(settings.namespace),
        image=str(settings.image), service_account=settings.service_account and str(settings.service_account),
        registry_secret=str(settings.registry_secret),
        secrets={str(name): str(path) for name, path in settings.secrets.items()},
        cores=cores, memory_mib=math.ceil(heap + overhead),
    )  # fmt: skip


def _mib(written: str) -> float:
    """A size as Spark writes it: a number alone is MiB."""
    return float(written) if written.isdigit() else Memory(written).bytes / _MIB


def _size(hosted: list[Mapping[str, Any]], base: DriverSettings) -> tuple[int, Memory]:
    """Cores and memory: the largest request."""
    wishes = [spec.get("resources") or {} for spec in hosted]
    cores = max([base.cores, *(int(wish["cores"]) for wish in wishes if wish.get("cores"))])
    sizes = [base.memory, *(Memory(wish["driver_memory"]) for wish in wishes if wish.get("driver_memory"))]
    return cores, max(sizes, key=lambda size: size.bytes)


def _cluster(base: DriverSettings) -> str | None:
    """`spark.master` of a driver with executors; None for one that runs all tasks itself."""
    if base.backend == "yarn":
        return "yarn"
    if base.backend == "kubernetes":
        return IN_CLUSTER if base.executors is not None else None
    spread = base.backend == "standalone" or base.master is not None
    return str(expect(base.master, "the master of a cluster")) if spread else None


def _executors(specs: list[Mapping[str, Any]], base: DriverSettings) -> Executors:
    requests = [wish["executors"] for spec in specs if (wish := spec.get("resources") or {}).get("executors")]
    return base.executors or (Executors.model_validate(requests[0]) if requests else Executors())


def _spread(specs: list[Mapping[str, Any]], base: DriverSettings, master: str) -> dict[str, str]:
    """Executors on a cluster: dynamic allocation between two bounds, or a fixed number."""
    executors = _executors(specs, base)
    settings = {
        "spark.master": master,
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": str(executors.memory),
    }
    if base.backend == "kubernetes":
        settings["spark.executor.memoryOverheadFactor"] = str(BESIDE_HEAP)
    if base.backend in ("yarn", "kubernetes"):
        # Both end an application after some lost executors. A stream runs for months: those of the last hour count.
        settings["spark.executor.failuresValidityInterval"] = "1h"
        if executors.min == executors.max or executors.by == "lag":
            settings["spark.executor.instances"] = str(executors.max)  # two by default
    else:
        settings["spark.cores.max"] = str(executors.max * executors.cores)  # a master gives all its cores by default
    if base.compiler == "quick":
        settings["spark.executor.extraJavaOptions"] = QUICK
    if base.authenticate:
        settings["spark.authenticate"] = "true"
    if executors.min == executors.max:
        return settings
    if executors.by == "lag":
        return {**settings, LEAST_EXECUTORS: str(executors.min), MOST_EXECUTORS: str(executors.max)}
    idle = f"{max([IDLE_S, *(IDLE_TRIGGERS * int(_every_s(spec)) for spec in specs)])}s"
    return {
        **settings,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(executors.min),
        "spark.dynamicAllocation.maxExecutors": str(executors.max),
        "spark.dynamicAllocation.executorIdleTimeout": idle,
        # No shuffle service: an executor's shuffle files are lost with it, so an executor with files of a batch stays
        # for a while. Batches do not read each other's files, and a running job never counts as idle.
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": idle,
    }


def _every_s(spec: Mapping[str, Any]) -> float:
    every = (spec.get("trigger") or {}).get("every")
    return Duration(every).seconds if every else 0.0
