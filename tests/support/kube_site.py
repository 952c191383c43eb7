"""A deployment whose drivers are pods, on a real API server of Kubernetes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver_site import DriverSite
from kube_cluster import IMAGE, SPACE, KubeCluster, Kubelet

from lakeward.spec.model.settings import Driver, Settings

BINARY = os.environ.get("LAKEWARD_KUBE_APISERVER", "")
ETCD = os.environ.get("LAKEWARD_KUBE_ETCD", "etcd")
EVIDENCE = os.environ.get("LAKEWARD_KUBE_EVIDENCE", "")
SPARK_SECRET = "known-to-driver-and-executors"


@dataclass(kw_only=True)
class Site(DriverSite):
    """A deployment whose drivers are pods."""

    cluster: KubeCluster
    kubelet: Kubelet

    @property
    def runtime(self) -> Any:
        return self.hosts[0]

    def pod(self) -> dict[str, Any]:
        name = str((self.job().handle or {})["pod"])
        return next(pod for pod in self.cluster.pods() if pod["metadata"]["name"] == name)


@contextmanager
def running(world: Any, simple: Callable[..., Any], folder: Path, **more: Any) -> Iterator[Site]:
    """The deployment, with one stream. `more`: of the driver's entry."""
    cluster = KubeCluster(folder / "kube", BINARY, ETCD)
    kubelet = Kubelet(cluster)
    try:
        cluster.start().install()
        given = {"registry__url": world.url, "pgpass": world.pgpass.read_text(), "spark__secret": SPARK_SECRET}
        cluster.secret("lakeward-registry", **given)
        secrets = folder / "secrets"
        cluster.kubeconfig("lakeward", secrets / "kubernetes" / "test.kubeconfig")
        kubelet.start()
        topic, table, stream = world.kafka.create_topic(), f"{world.name}.landed", f"{world.name}_s"
        world.deploy(simple(stream, topic, table))
        entry = Driver.model_validate({
            "backend": "kubernetes", "image": IMAGE, "namespace": SPACE, "connection": "test", "memory": "640m",
            "service_account": "lakeward-driver", "compiler": "quick", "cores": 1,
            "spark": {"spark.pyspark.python": sys.executable}, **more,
        })  # fmt: skip
        runtime = world.runtime.model_copy(update={"connections": secrets})
        settings = Settings(drivers={world.name: entry})
        yield Site(world, (runtime,), settings, topic, table, stream, EVIDENCE, cluster=cluster, kubelet=kubelet)
    finally:
        if kubelet.ident is not None:
            kubelet.end()
        cluster.end()
