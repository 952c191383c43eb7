"""A deployment whose drivers are pods, on a real API server of Kubernetes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kube_cluster import IMAGE, SPACE, KubeCluster, Kubelet
from sqlalchemy import delete, text

from lakeward.registry import drivers
from lakeward.registry.schema import restarts
from lakeward.spec.model.settings import Driver, Settings
from lakeward.supervision import observe
from lakeward.supervision.backends.base import Job
from lakeward.supervision.context import backend_of, registry_of
from lakeward.supervision.reconcile import Summary, reconcile_once

BINARY = os.environ.get("LAKEWARD_KUBE_APISERVER", "")
ETCD = os.environ.get("LAKEWARD_KUBE_ETCD", "etcd")
EVIDENCE = os.environ.get("LAKEWARD_KUBE_EVIDENCE", "")
SPARK_SECRET = "known-to-driver-and-executors"


@dataclass
class Site:
    """A deployment whose drivers are pods."""

    world: Any
    cluster: KubeCluster
    kubelet: Kubelet
    runtime: Any
    settings: Settings
    topic: str
    table: str
    stream: str
    sent: int = 0
    evidence: dict[str, Any] = field(default_factory=dict)

    def reconcile(self, settings: Settings | None = None) -> Summary:
        return reconcile_once(
            registry_of(self.runtime), self.runtime, holder="test", settings=settings or self.settings,
            chance=lambda: 0.0, startup_grace_s=0.0,
        )  # fmt: skip

    def send(self, count: int) -> None:
        self.world.numbers(self.topic, range(self.sent, self.sent + count))
        self.sent += count

    def until(self, what: str, done: Callable[[], Any]) -> Any:
        """Reconcile until something is so."""

        def look() -> Any:
            self.reconcile()
            return done()

        return self.world.wait_for(what, look, 300)

    def landed(self) -> bool:
        return bool(self.world.landed(self.table, self.stream) >= self.sent)

    def token(self) -> str:
        with self.world.connect() as connection:
            row = drivers.find(connection, self.world.name)
        return row.token if row is not None else ""

    def job(self) -> Job:
        with self.world.connect() as connection:
            facts = observe.read(connection)
        token = facts.drivers[self.world.name].token
        return next(job for job in backend_of(self.runtime).find(facts.known()) if job.token == token)

    def pod(self) -> dict[str, Any]:
        name = str((self.job().handle or {})["pod"])
        return next(pod for pod in self.cluster.pods() if pod["metadata"]["name"] == name)

    def fresh(self) -> None:
        """Each trial is a first failure: growing pauses are not what is looked at here."""
        with self.world.connect() as connection:
            connection.execute(delete(restarts))

    def failure(self) -> str:
        with self.world.connect() as connection:
            row = connection.execute(text("SELECT error FROM restarts ORDER BY at DESC LIMIT 1")).scalar_one_or_none()
        return str(row or "")

    def exact(self) -> None:
        """Nothing lost, nothing doubled."""
        self.until("all rows", self.landed)
        assert sorted(row["n"] for row in self.world.rows(self.table)) == list(range(self.sent))

    def note(self, name: str, value: Any) -> None:
        """Keep a fact for the report, together with those of the other tests."""
        self.evidence[name] = value
        if EVIDENCE:
            file = Path(EVIDENCE)
            kept = json.loads(file.read_text()) if file.exists() else {}
            file.write_text(json.dumps({**kept, **self.evidence}, indent=2))


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
        yield Site(world, cluster, kubelet, runtime, settings, topic, table, stream)
    finally:
        if kubelet.ident is not None:
            kubelet.end()
        cluster.end()
