"""Executors as pods on a real API server of Kubernetes; `make kubernetes-test` runs this, too."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kube_cluster import SPACE
from kube_site import BINARY, SPARK_SECRET, Site, running

pytestmark = [
    pytest.mark.campaign(
        held_by="tests/unit/connectors/kubernetes/test_executor_pods.py::test_the_template_has_no_password_of_the_registry"
    ),
    pytest.mark.timeout(1800),  # a bound for a hang
    pytest.mark.skipif(not BINARY, reason="LAKEWARD_KUBE_APISERVER names no API server (make kubernetes-test)"),
]
COUNT, KILLS = 2, 3


@pytest.fixture
def site(world: Any, simple: Callable[..., Any], tmp_path: Path) -> Iterator[Site]:
    executors = {"min": COUNT, "max": COUNT, "memory": "512m"}
    with running(world, simple, tmp_path, executors=executors) as found:
        yield found


def of_executors(site: Site) -> list[dict[str, Any]]:
    """Pods of executors whose processes run."""
    return [
        pod
        for pod in site.cluster.pods()
        if pod["metadata"]["labels"]["app.kubernetes.io/name"] == "lakeward-executor"
        and pod["status"].get("phase") == "Running"
    ]


def kill(site: Site, pod: dict[str, Any]) -> None:
    os.killpg(site.kubelet.running[pod["metadata"]["uid"]].process.pid, signal.SIGKILL)


def test_a_stream_lands_once_through_executors_in_pods(site: Site) -> None:
    site.send(100)
    site.world.wait_for("its words", lambda: (site.reconcile(), "LW-2577" in site.failure())[1], 300)
    assert "lakeward-driver of a driver may not create, get" in site.failure()
    site.note("executors without rights", site.failure())
    site.cluster.allow_executors()
    site.cluster.secret("anchor", any="")
    site.kubelet.bound = "anchor"
    site.kubelet.full_for = "lakeward-executor"
    site.fresh()
    site.world.wait_for("the cluster's words", lambda: (site.reconcile(), "LW-2559" in site.failure())[1], 400)
    assert "Kubernetes has no room for an executor" in site.failure()
    assert "Insufficient cpu" in site.failure() and "kubectl describe pod" in site.failure()
    site.note("executors without room", site.failure())
    site.kubelet.full_for = ""
    site.fresh()
    site.exact()

    pods = site.until("its executors", lambda: len(found := of_executors(site)) == COUNT and found)
    driver = site.pod()
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {driver["metadata"]["uid"]}
    shown = json.dumps(site.cluster.pods())
    assert SPARK_SECRET not in shown and site.token() not in shown and site.world.url not in shown
    assert "_SPARK_AUTH_SECRET" not in shown

    # Its token ends, and the node has written another one: an executor that is lost afterwards is replaced.
    old = site.cluster.token("lakeward-driver", 3600, "anchor")
    site.kubelet.bound = ""
    site.kubelet.renew(driver)
    site.cluster.call("DELETE", f"/api/v1/namespaces/{SPACE}/secrets/anchor")
    site.world.wait_for("the end of the token", lambda: site.cluster.refuses(old), 60)

    for number in range(KILLS):
        site.send(200)
        kill(site, of_executors(site)[number % COUNT])
        site.exact()
    site.until("as many again", lambda: len(of_executors(site)) == COUNT)

    token = site.token()
    site.fresh()
    site.send(200)
    os.kill(site.kubelet.running[driver["metadata"]["uid"]].process.pid, signal.SIGKILL)
    site.until("a new launch", lambda: site.token() != token)
    site.exact()
    uids = {pod["metadata"]["uid"] for pod in pods}
    site.until("no executor of the dead driver", lambda: not uids & {p["metadata"]["uid"] for p in of_executors(site)})

    token = site.token()
    site.fresh()
    site.cluster.call("DELETE", f"/api/v1/namespaces/{SPACE}/pods/{site.pod()['metadata']['name']}")
    site.until("a new launch after the drain", lambda: site.token() != token)
    site.send(100)
    site.exact()
    site.note("executors", {"sent": site.sent, "kills": KILLS})
