"""Drivers as pods, as the backend starts, finds and ends them; the registry is real, the API server a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kube_api import PODS, KubeApi, refused, running
from small_streams import connected, registry_file, runtime
from sqlalchemy import text

from lakeward.connectors.kubernetes.names import digest
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Launch, PodPlace, Runtime
from lakeward.registry import drivers, launches
from lakeward.supervision.backends import kubernetes as backend_module
from lakeward.supervision.backends.base import Job, Known, Life
from lakeward.supervision.backends.identity import deployment
from lakeward.supervision.backends.kubernetes import KubernetesBackend
from lakeward.supervision.observe import Connect

__all__ = ["connected", "registry_file", "runtime"]  # fixtures
PLACE = PodPlace(namespace="streams", image="lakeward:1", registry_secret="lakeward-registry", cores=2, memory_mib=1434)


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with running() as found:
        yield found


@pytest.fixture
def cluster(connected: Connect, kube: KubeApi, monkeypatch: pytest.MonkeyPatch) -> KubernetesBackend:
    monkeypatch.setattr(backend_module, "KILL_S", 0.2)
    monkeypatch.setattr(backend_module, "_POLL_S", 0.05)
    return KubernetesBackend(connected, lambda place: kube.api)


@pytest.fixture
def launched(connected: Connect, cluster: KubernetesBackend, runtime: Runtime) -> Callable[..., Job]:
    """Launch driver `big` as an actor does."""

    def launch(token: str = "t1", previous: str | None = None) -> Job:
        with connected() as connection:
            assert drivers.record_intent(connection, "big", token=token, previous=previous, backend="kubernetes")
        job = cluster.start(
            Launch(driver="big", token=token, folder=runtime.drivers, runtime=runtime, pod=PLACE, conf={})
        )
        with connected() as connection:
            drivers.started(connection, "big", token, handle=job.handle or {}, host=job.host, log=job.log)
        return job

    return launch


def name_of(job: Job) -> str:
    return str((job.handle or {})["pod"])


def row_of(connected: Connect, token: str) -> launches.LaunchRow:
    with connected() as connection:
        row = launches.of_token(connection, token)
    assert row is not None
    return row


def test_a_launch_is_a_row_and_a_pod_with_its_id_and_without_a_secret(
    launched: Callable[..., Job], kube: KubeApi, connected: Connect, runtime: Runtime
) -> None:
    job = launched("a-token-of-this-launch")
    [pod] = kube.pods.values()
    row = row_of(connected, job.token)
    assert pod["spec"]["containers"][0]["command"] == ["python", "-m", "lakeward.driver.pod", row.id]
    assert pod["metadata"]["labels"]["lakeward.io/token-digest"] == digest(job.token)
    assert job.handle == row.handle == {"pod": f"lakeward-big-{row.id}", "namespace": "streams", "uid": "uid-1"}
    url = runtime.registry_url_file.read_text().strip()
    assert job.token not in str(kube.bodies) and url not in str(kube.bodies) and "a-token" not in str(kube.bodies)


def test_an_answer_that_is_lost_makes_no_second_pod(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    kube.drop = 1
    job = launched()
    assert kube.calls == [f"POST {PODS}", f"POST {PODS}", f"GET {PODS}/{name_of(job)}"]
    assert len(kube.pods) == 1
    assert [(each.token, each.handle) for each in cluster.find()] == [("t1", job.handle)]


def test_a_pod_of_that_name_with_another_token_is_not_taken(
    launched: Callable[..., Job], kube: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module.secrets, "token_hex", lambda _: "same")
    job = launched()
    kube.pods[name_of(job)]["metadata"]["labels"]["lakeward.io/token-digest"] = "another"
    place = kube.api
    with pytest.raises(LakewardError) as error:
        backend_module._created(place, PLACE, kube.pods[name_of(job)], "t1")
    assert error.value.code == "LW-2562"


def test_one_list_call_for_all_drivers_of_a_namespace(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    launched()
    launched("t2", "t1")
    launched("t3", "t2")
    kube.calls.clear()
    assert [(job.token, job.life) for job in cluster.find()] == [(token, Life.ALIVE) for token in ("t1", "t2", "t3")]
    assert kube.calls == [f"GET {PODS}"]


@pytest.mark.parametrize("odd", ["row", "pod"])
def test_a_launch_that_cannot_be_judged_is_unknown_and_the_others_are_judged(
    launched: Callable[..., Job], connected: Connect, kube: KubeApi, cluster: KubernetesBackend, odd: str
) -> None:
    first = launched()
    launched("t2", "t1")
    if odd == "row":
        with connected() as connection:
            connection.execute(text("UPDATE launches SET place = place || '{\"cores\": \"many\"}' WHERE token = 't1'"))
    else:
        kube.pods[name_of(first)]["status"] = ["no", "status"]
    assert {job.token: job.life for job in cluster.find()} == {"t1": Life.UNKNOWN, "t2": Life.ALIVE}


@pytest.mark.parametrize(
    "refusal",
    [
        (401, refused("Unauthorized", "Unauthorized")),
        (403, refused("Forbidden", 'pods is forbidden: User "u" cannot list resource "pods"')),
        (429, refused("TooManyRequests", "too many requests")),
        (500, refused("InternalError", "etcdserver: leader changed")),
        (503, {}),
    ],
)
def test_an_api_that_does_not_say_makes_drivers_unknown_and_removes_nothing(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend, refusal: tuple[int, dict[str, object]]
) -> None:
    job = launched()
    kube.refusals[f"GET {PODS}"] = refusal
    [found] = cluster.find()
    assert (found.life, found.lost, found.exit) == (Life.UNKNOWN, "", None)
    assert list(kube.pods) == [name_of(job)]


def test_a_pod_that_is_not_there_is_lost_unless_its_driver_wrote_how_it_ended(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend, connected: Connect
) -> None:
    launched()
    kube.pods.clear()
    [found] = cluster.find()
    assert (found.life, found.lost) == (Life.UNKNOWN, "its pod is not in namespace streams any more")
    with connected() as connection:
        launches.write_exit(connection, row_of(connected, "t1").id, {"exit_code": 0})
    [found] = cluster.find()
    assert (found.life, found.exit) == (Life.GONE, {"exit_code": 0})


def test_the_end_that_a_pod_tells_is_kept_when_the_pod_is_gone(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    job = launched()
    kube.status_of(name_of(job), phase="Failed", reason="Evicted", message="low on memory")
    ends = [found.exit for found in cluster.find()]
    kube.pods.clear()
    assert [found.exit for found in cluster.find()] == ends == [
        {"error": "The driver was evicted from its node: low on memory"}
    ]  # fmt: skip


def test_what_the_driver_wrote_is_not_replaced_by_what_its_pod_tells(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend, connected: Connect
) -> None:
    job = launched()
    with connected() as connection:
        launches.write_exit(connection, row_of(connected, "t1").id, {"exit_code": 1, "error": "its own words"})
    kube.status_of(name_of(job), phase="Failed", reason="Error")
    [found] = cluster.find()
    assert found.exit == {"exit_code": 1, "error": "its own words"}


def test_a_driver_that_writes_its_end_while_the_pass_looks_keeps_its_own_words(
    launched: Callable[..., Job], connected: Connect
) -> None:
    launched()
    row = row_of(connected, "t1")
    with connected() as connection:
        launches.write_exit(connection, row.id, {"exit_code": 0})
        launches.keep_exit(connection, row.id, {"error": "The pod of the driver was deleted by Lakeward"})
    assert row_of(connected, "t1").exit == {"exit_code": 0}


def test_ended_pods_are_removed_except_that_of_the_newest_launch(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    first, second = launched(), launched("t2", "t1")
    for job in (first, second):
        kube.status_of(name_of(job), phase="Failed", reason="Evicted")
    cluster.find()
    cluster.find()
    assert list(kube.pods) == [name_of(second)]


def test_pods_of_another_deployment_are_left_alone(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    job = launched()
    labels = {"app.kubernetes.io/managed-by": "lakeward", "lakeward.io/deployment": deployment("postgresql://a/b")}
    kube.pods["other"] = {"metadata": {"name": "other", "uid": "o", "labels": labels}, "status": {"phase": "Failed"}}
    cluster.find()
    assert list(kube.pods) == [name_of(job), "other"]


def test_a_deployment_has_one_label_whatever_the_login_is() -> None:
    one, two = deployment("postgresql://u@h:5432/registry\n"), deployment("postgresql://other:secret@h:5432/registry")
    assert one == two != deployment("postgresql://u@h:5432/other")


def test_a_starter_that_died_after_the_creation_leaves_a_pod_that_is_found(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend, connected: Connect
) -> None:
    job = launched()
    with connected() as connection:
        launches.submitted(connection, row_of(connected, "t1").id, {})
        connection.exec_driver_sql("UPDATE launches SET handle = NULL")
    kube.status_of(name_of(job), phase="Running")
    assert [(each.life, each.handle) for each in cluster.find()] == [(Life.ALIVE, job.handle)]
    kube.pods.clear()
    assert cluster.find() == []


def test_a_stop_asks_in_the_row_and_deletes_the_pod_with_its_grace(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend, connected: Connect
) -> None:
    job = launched()
    kube.status_of(name_of(job), phase="Running")
    [job] = cluster.find()
    assert cluster.stop(job, grace_s=90)
    options = kube.bodies[-1]
    assert (options["gracePeriodSeconds"], options["preconditions"]) == (90, {"uid": "uid-1"})
    with connected() as connection:
        assert launches.requests(connection, row_of(connected, "t1").id).end
    assert [each.life for each in cluster.find()] == [Life.GONE]


def test_a_kill_that_no_node_confirms_is_no_end(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    job = launched()
    kube.status_of(name_of(job), phase="Running")
    kube.ends_at_once = False
    assert not cluster.kill(job)
    assert [body["gracePeriodSeconds"] for body in kube.bodies if body["kind"] == "DeleteOptions"] == [1, 0]
    [found] = cluster.find()
    assert found.life is Life.UNKNOWN and found.lost, "lease and heartbeat decide"
    assert not cluster.kill(found)


def test_a_later_pod_of_the_same_name_is_not_deleted(
    launched: Callable[..., Job], kube: KubeApi, cluster: KubernetesBackend
) -> None:
    job = launched()
    kube.pods[name_of(job)]["metadata"]["uid"] = "another"
    assert not cluster.kill(job)
    assert list(kube.pods) == [name_of(job)]


def test_a_launch_whose_row_was_removed_is_lost(cluster: KubernetesBackend) -> None:
    [job] = cluster.find([Known("big", "t1", {"pod": "p", "namespace": "streams", "uid": "u"}, "")])
    assert (job.life, job.lost) == (Life.UNKNOWN, "the registry has no record of its launch")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, refused("Unauthorized", "Unauthorized"), "LW-2552"),
        (403, refused("Forbidden", 'pods is forbidden: User "u" cannot create resource "pods"'), "LW-2553"),
        (403, refused("Forbidden", 'pods "p" is forbidden: exceeded quota: small, requested: cpu=2'), "LW-2554"),
        (404, refused("NotFound", 'namespaces "streams" not found', "namespaces"), "LW-2555"),
        (403, refused("Forbidden", "unable to create new content because it is being terminated"), "LW-2555"),
        (403, refused("Forbidden", 'pods "p" is forbidden: violates PodSecurity "restricted:latest"'), "LW-2556"),
        (422, refused("Invalid", 'Pod "p" is invalid: spec.containers[0].image: Required value'), "LW-2556"),
        (503, {}, "LW-2551"),
    ],
)
def test_what_the_api_refuses_has_its_own_code_and_words(
    launched: Callable[..., Job], kube: KubeApi, status: int, body: dict[str, object], code: str
) -> None:
    kube.refusals["POST "] = (status, body)
    with pytest.raises(LakewardError) as error:
        launched()
    assert error.value.code == code
    assert isinstance(error.value, DependencyDown) is (code != "LW-2556")
    assert str(body.get("message", status)) in error.value.why
    assert kube.pods == {}
