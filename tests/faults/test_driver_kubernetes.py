"""Drivers as pods on a real API server of Kubernetes, with a kubelet that runs them as processes of this machine.

`make kubernetes-test` builds the API server and runs this; it writes docs/reference/kubernetes-test.md.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kube_cluster import SPACE
from kube_site import BINARY, Site, running

from lakeward.registry import launches
from lakeward.spec.model.settings import Settings
from lakeward.supervision.backends.base import Life
from lakeward.supervision.context import backend_of
from lakeward.supervision.decide import reconcile as decisions

KILLS = int(os.environ.get("LAKEWARD_KUBE_KILLS", "10"))
AWAY_S = float(os.environ.get("LAKEWARD_KUBE_AWAY_S", "60"))
pytestmark = [
    pytest.mark.campaign(
        held_by="tests/unit/supervision/backends/test_kubernetes.py"
        "::test_an_api_that_does_not_say_makes_drivers_unknown_and_removes_nothing"
    ),
    pytest.mark.timeout(3600),  # a bound for a hang
    pytest.mark.skipif(not BINARY, reason="LAKEWARD_KUBE_APISERVER names no API server (make kubernetes-test)"),
]


@pytest.fixture
def site(world: Any, simple: Callable[..., Any], tmp_path: Path) -> Iterator[Site]:
    with running(world, simple, tmp_path) as found:
        yield found


def test_drivers_as_pods_live_through_what_a_cluster_does_to_them(site: Site) -> None:
    site.note("server", site.cluster.call("GET", "/version")["gitVersion"])
    site.send(300)
    site.exact()
    _killed(site)
    _api_away(site)
    _deleted_by_a_person(site)
    _evicted(site)
    _bad_input(site)
    _stopped(site)


def _killed(site: Site) -> None:
    """SIGKILL of the driver's first process, by which its container ends, again and again."""
    noticed, committing = [], []
    for _ in range(KILLS):
        site.fresh()
        site.send(200)
        site.until("a batch", lambda: site.world.landed(site.table, site.stream) > site.sent - 200)
        token, uid = site.token(), site.pod()["metadata"]["uid"]
        os.kill(site.kubelet.running[uid].process.pid, signal.SIGKILL)
        begun = time.monotonic()
        site.until("a new launch", lambda before=token: site.token() != before)
        noticed.append(time.monotonic() - begun)
        site.send(100)
        site.until("rows of the new driver", site.landed)
        committing.append(time.monotonic() - begun)
        site.note("kills", {
            "count": len(noticed), "relaunched_s": [round(each, 1) for each in noticed],
            "committing_s": [round(each, 1) for each in committing],
            "median_committing_s": round(statistics.median(committing), 1),
        })  # fmt: skip
    site.exact()
    site.until("ended pods are removed", lambda: len(site.cluster.pods()) == 1)


def _api_away(site: Site) -> None:
    """The API server is away: nothing is restarted, rows land on, and the driver is known again afterwards."""
    token = site.token()
    site.cluster.stop_server()
    end = time.monotonic() + AWAY_S
    passes = 0
    while time.monotonic() < end:
        site.send(20)
        summary = site.reconcile()
        assert not summary.launched and site.job().life is Life.UNKNOWN
        passes += 1
        time.sleep(2)
    site.world.wait_landed(site.table, site.stream, site.sent)
    site.cluster.start_server()
    site.until("the driver is known again", lambda: site.job().life is Life.ALIVE)
    assert site.token() == token, "restarted because only the API was away"
    site.note("api_away", {"seconds": AWAY_S, "passes": passes, "restarts": 0, "landed_meanwhile": passes * 20})


def _deleted_by_a_person(site: Site) -> None:
    """`kubectl delete pod`: the driver ends at a batch boundary, and another one goes on."""
    site.fresh()
    token, pod = site.token(), site.pod()["metadata"]["name"]
    site.cluster.call("DELETE", f"/api/v1/namespaces/{SPACE}/pods/{pod}")
    site.until("a new launch", lambda: site.token() != token)
    with site.world.connect() as connection:
        row = launches.of_token(connection, token)
    assert row is not None and row.exit is not None and row.exit["exit_code"] == 0, "it was drained"
    site.send(100)
    site.exact()
    site.note("deleted_by_a_person", "exit code 0, relaunched")


def _evicted(site: Site) -> None:
    """`kubectl drain`, and a node without memory."""
    site.fresh()
    token = site.token()
    site.cluster.evict(site.pod()["metadata"]["name"])
    site.until("a new launch after the eviction through the API", lambda: site.token() != token)
    site.send(100)
    site.exact()
    token = site.token()
    site.kubelet.evict_for_memory(site.pod()["metadata"]["uid"])
    site.until("a new launch after the eviction by its node", lambda: site.token() != token)
    failure = site.failure()
    assert "was evicted from its node: The node was low on resource: memory." in failure
    site.send(100)
    site.exact()
    site.note("evicted", failure)


def _bad_input(site: Site) -> None:
    """What a person can get wrong: each has its words and code, nothing is lost and nothing is started twice."""
    [(name, entry)] = site.settings.drivers.items()
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}},
    }  # fmt: skip
    role = "/apis/rbac.authorization.k8s.io/v1/namespaces/streams/rolebindings/lakeward-drivers"

    def ended() -> None:
        """The driver is killed, so that the next pass launches one."""
        site.fresh()
        site.until("a driver that runs", lambda: site.pod()["status"].get("phase") == "Running")
        uid = site.pod()["metadata"]["uid"]
        os.killpg(site.kubelet.running[uid].process.pid, signal.SIGKILL)
        site.world.wait_for("its pod has ended", lambda: site.job().life is Life.GONE, 60)

    def fails(code: str, **changed: Any) -> str:
        settings = Settings(drivers={name: entry.model_copy(update=changed)})
        site.world.wait_for(code, lambda: (site.reconcile(settings), code in site.failure())[1], 300)
        return site.failure()

    found = {}
    ended()
    site.cluster.create(quota)
    path = f"/api/v1/namespaces/{SPACE}/resourcequotas/small"
    document = site.cluster.call("GET", path)  # no controller counts here: the test says what is used
    document["status"] = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    site.cluster.call("PUT", f"{path}/status", document)
    found["quota exceeded"] = fails("LW-2554")
    site.cluster.call("DELETE", path)
    site.fresh()
    found["namespace missing, and no rights there"] = fails("LW-2553", namespace="nowhere")
    site.fresh()
    binding = site.cluster.call("GET", role)
    site.cluster.call("DELETE", role)
    found["no rights"] = fails("LW-2553")
    fresh = {key: binding[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
    site.cluster.create({**fresh, "metadata": {"name": "lakeward-drivers"}})
    site.fresh()
    site.until("a launch", lambda: site.job().life is Life.ALIVE)

    def waits(code: str, **changed: Any) -> str:
        """A pod that does not start: its words while it waits; then it is withdrawn with them."""
        settings = Settings(drivers={name: entry.model_copy(update=changed)})
        ended()

        def waiting() -> str:
            site.reconcile(settings)
            found = site.job().waits
            return found if code in found else ""

        words = str(site.world.wait_for(code, waiting, 120))
        decisions.ROOM_S, patience = 5.0, decisions.ROOM_S  # what else takes three minutes
        site.world.wait_for("its failure", lambda: (site.reconcile(settings), code in site.failure())[1], 120)
        site.fresh()
        site.until("a driver that runs", lambda: site.pod()["status"]["phase"] == "Running")
        decisions.ROOM_S = patience
        return words

    found["image missing"] = waits("LW-2558", image="lakeward:nowhere")
    found["secret missing"] = waits("LW-2560", registry_secret="nowhere")
    site.kubelet.full = True
    ended()

    def unscheduled() -> str:
        site.reconcile()
        return site.job().waits if "LW-2559" in site.job().waits else ""

    found["no room"] = str(site.world.wait_for("no room", unscheduled, 120))
    site.kubelet.full = False
    site.send(100)
    site.exact()
    site.note("bad_input", found)


def _stopped(site: Site) -> None:
    """Stopped at a batch boundary; the token was nowhere but in the registry."""
    job, pod = site.job(), site.pod()
    shown = json.dumps(site.cluster.pods())
    assert job.token not in shown and site.world.url not in shown
    assert backend_of(site.runtime).dump(job) is not None
    assert backend_of(site.runtime).stop(job, grace_s=90)
    ended = site.job()
    assert ended.life is Life.GONE and ended.exit is not None and ended.exit["exit_code"] == 0
    assert pod["metadata"]["name"] not in [each["metadata"]["name"] for each in site.cluster.pods()]
    rows = [row["n"] for row in site.world.rows(site.table)]
    assert sorted(rows) == list(range(site.sent))
    site.note("rows", {"sent": site.sent, "landed": len(rows), "lost": 0, "doubled": 0})
