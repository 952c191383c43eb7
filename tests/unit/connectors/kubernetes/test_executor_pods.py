"""Executors in pods: what the pod of their driver has, the template of theirs, and the conf of Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kube_api import running

from lakeward.connectors.kubernetes import executor_pods, manifest
from lakeward.connectors.kubernetes.access import Access
from lakeward.connectors.kubernetes.client import Api
from lakeward.driver.executor_pod import command
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake, Launch, PodPlace, Runtime
from lakeward.spec.model.driver_conf import IN_CLUSTER

PLACE = PodPlace(
    namespace="streams", image="lakeward:1", service_account="lakeward-driver", registry_secret="registry", cores=1,
    memory_mib=900, deployment="d", secrets={"kafka": "/home/lakeward/secrets/kafka"},
)  # fmt: skip


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "some.jar").touch()
    runtime = Runtime(
        registry_url_file=tmp_path / "registry.url", lake=Lake(warehouse="s3://lake/warehouse"), checkpoints="s3://c",
        drivers=tmp_path, jars=tmp_path / "jars",
    )  # fmt: skip
    conf = {"spark.master": IN_CLUSTER, "spark.pyspark.python": "/opt/python"}
    return Launch(driver="Big", token="hidden", folder=tmp_path, runtime=runtime, pod=PLACE, id="ab12", conf=conf)


@pytest.fixture
def in_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, value in {
        "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443", executor_pods.ADDRESS: "10.1.2.3",
        executor_pods.API: str(tmp_path), executor_pods.AUTHENTICATION: "/etc/lakeward/spark/spark.secret",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return tmp_path


def test_the_template_has_no_password_of_the_registry(launch: Launch) -> None:
    found = executor_pods.template(launch, PLACE)
    secrets = [volume["secret"] for volume in found["spec"]["volumes"] if "secret" in volume]
    [of_registry] = [secret for secret in secrets if secret["secretName"] == "registry"]
    assert [item["key"] for item in of_registry["items"]] == ["spark.secret"]
    assert {secret["secretName"] for secret in secrets} == {"registry", "kafka"}
    text = json.dumps(found)
    assert launch.token not in text and "pgpass" not in text and "LAKEWARD_REGISTRY" not in text
    assert found["spec"]["automountServiceAccountToken"] is False


def test_an_executor_is_not_listed_as_a_driver(launch: Launch) -> None:
    labels = executor_pods.template(launch, PLACE)["metadata"]["labels"]
    wanted = dict(part.split("=") for part in manifest.names.selector(PLACE).split(","))
    assert not wanted.items() <= labels.items()
    assert wanted.items() <= manifest.document(launch, PLACE)["metadata"]["labels"].items()
    assert labels["lakeward.io/launch"] == "ab12"


def test_the_pod_of_a_driver_has_a_login_only_if_it_has_executors(launch: Launch) -> None:
    def volumes(given: Launch) -> set[str]:
        return {volume["name"] for volume in manifest.document(given, PLACE)["spec"]["volumes"]}

    alone = launch.model_copy(update={"conf": {"spark.master": "local[2,4]"}})
    assert volumes(launch) - volumes(alone) == {"api", "authentication"}
    assert not executor_pods.used(alone)


def test_both_pods_obey_the_rules_of_a_restricted_namespace(launch: Launch) -> None:
    for pod in (manifest.document(launch, PLACE), executor_pods.template(launch, PLACE)):
        [container] = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.usefixtures("in_pod")
def test_the_conf_names_the_address_of_the_node_and_no_secret(launch: Launch, tmp_path: Path) -> None:
    found = executor_pods.conf(launch, PLACE, "10.1.2.3", tmp_path / "executor.json")
    assert found["spark.master"] == "k8s://https://[fd00::1]:6443"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.1.2.3"
    assert found["spark.kubernetes.driver.pod.name"] == "lakeward-big-ab12"
    assert found["spark.authenticate"] == "true"
    # With this file Spark does not write the secret into the pods of executors.
    assert found["spark.authenticate.secret.executor.file"] == "/etc/lakeward/spark/spark.secret"
    assert "hidden" not in " ".join(found.values())


@pytest.mark.usefixtures("in_pod")
@pytest.mark.parametrize("missing", [[], ["watch", "deletecollection"]])
def test_missing_rights_are_named_before_spark_waits(monkeypatch: pytest.MonkeyPatch, missing: list[str]) -> None:
    def refused(self: Api, namespace: str, verbs: Any) -> list[str]:
        assert namespace == "streams" and "deletecollection" in verbs
        return missing

    monkeypatch.setattr(executor_pods.access, "of_service_account", lambda *words, **more: None)
    monkeypatch.setattr(Api, "allowed", refused)
    if not missing:
        executor_pods.require_rights(PLACE)
        return
    with pytest.raises(DependencyDown) as caught:
        executor_pods.require_rights(PLACE)
    assert caught.value.code == "LW-2577" and "lakeward-driver" in caught.value.what
    assert "watch, deletecollection" in caught.value.what
    assert "deploy/kubernetes/executors" in caught.value.next


@pytest.mark.usefixtures("in_pod")
def test_the_cluster_says_why_an_executor_has_not_started(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "0/3 nodes are available: 3 Insufficient cpu."
    full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    with running() as kube:
        given = Access(f"http://127.0.0.1:{kube.port}", "a test", None, str)
        monkeypatch.setattr(executor_pods.access, "of_service_account", lambda *words, **more: given)
        assert executor_pods.unstarted(launch) is None  # Spark has made none
        labels = executor_pods.template(launch, PLACE)["metadata"]["labels"]
        for name, status, more in (
            ("big-exec-1", {"phase": "Running"}, {}),
            ("other-exec-1", {"phase": "Pending", "conditions": [full]}, {"lakeward.io/launch": "other"}),
        ):
            kube.pods[name] = {"metadata": {"name": name, "labels": labels | more}, "status": status}
        assert executor_pods.unstarted(launch) is None
        kube.pods["big-exec-2"] = {
            "metadata": {"name": "big-exec-2", "namespace": "streams", "labels": labels},
            "status": {"phase": "Pending", "conditions": [full]},
        }
        found = executor_pods.unstarted(launch)
        assert found is not None and found.code == "LW-2559"
        assert found.what == "Kubernetes has no room for an executor" and message in found.why
        assert "executors smaller (executors: {memory:, cores:} of the driver)" in found.next
        assert "kubectl describe pod big-exec-2 -n streams" in found.next
        waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": "non-existent secret key"}}
        kube.status_of("big-exec-2", phase="Pending", containerStatuses=[{"name": "executor", "state": waiting}])
        found = executor_pods.unstarted(launch)
        assert found is not None and found.code == "LW-2560" and "non-existent secret key" in found.why
        kube.refusals["GET"] = (500, {"message": "overloaded"})
        assert executor_pods.unstarted(launch) is None
        local = launch.model_copy(update={"conf": {"spark.master": "local[2,4]"}})
        calls = len(kube.calls)
        assert executor_pods.unstarted(local) is None and len(kube.calls) == calls


def test_an_executor_is_started_as_spark_says() -> None:
    environ = {
        "SPARK_JAVA_OPT_10": "-Dlast", "SPARK_JAVA_OPT_2": "-Dfirst", "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_CLASSPATH": "/jars/a.jar", "SPARK_DRIVER_URL": "spark://x@10.0.0.1:7078", "SPARK_EXECUTOR_ID": "4",
        "SPARK_EXECUTOR_CORES": "2", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod-4",
    }  # fmt: skip
    found = command(Path("/java"), Path("/spark/jars"), environ)
    assert found.index("-Dfirst") < found.index("-Dlast") < found.index("-Xmx512m")
    assert found[found.index("-cp") + 1] == "/jars/a.jar:/spark/jars/*"
    assert found[found.index("--executor-id") + 1] == "4"
    assert found[found.index("--podName") + 1] == "pod-4"
