"""The entry of a driver with its connection: what each gives, and what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.cluster.resolve import resolved
from lakeward.platform.errors import SpecError
from lakeward.spec.model.driver_conf import conf, place, pod, yarn
from lakeward.spec.model.settings import MAINTENANCE, Driver, Settings


def settings(name: str = "big", **entry: Any) -> Settings:
    return Settings.model_validate({"drivers": {name: {"connection": "prod", **entry}}})


def connect(folder: Path, content: object, kind: str = "spark", by: str = "airflow/") -> Path:
    file = folder / f"{by}{kind}" / "prod.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return folder


def spark(host: str | None = None, port: int | None = None, conn_type: str = "spark", **extra: Any) -> dict[str, Any]:
    return {"conn_type": conn_type, "host": host, "port": port, "extra": extra}


def refusal(folder: Path, name: str = "big", **entry: Any) -> SpecError:
    with pytest.raises(SpecError) as error:
        resolved(name, settings(name, **entry), folder)
    assert error.value.next
    return error.value


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (spark("spark://h:7077"), "spark://h:7077"),
        (spark("spark://h", 7077), "spark://h:7077"),
        (spark("h", 7077), "spark://h:7077"),  # what Airflow makes of a URI
        (spark("spark://one:7077,two:7077"), "spark://one:7077,two:7077"),
    ],
)
def test_the_master_is_the_one_that_airflow_s_spark_provider_would_use(
    tmp_path: Path, given: dict[str, Any], master: str
) -> None:
    found = resolved("big", settings(backend="standalone"), connect(tmp_path, given))
    assert conf([], found)["spark.master"] == master
    assert place(found) is None


def test_the_rest_gateway_of_the_connection_is_for_cluster_mode_with_one_master(tmp_path: Path) -> None:
    extra = {"deploy-mode": "cluster", "rest-port": 6166}
    found = place(resolved("big", settings(backend="standalone"), connect(tmp_path, spark("h", 7077, **extra))))
    assert found is not None and found.rest == "http://h:6166"
    connect(tmp_path, spark("spark://one:7077,two:7077", **extra))
    found = place(resolved("big", settings(backend="standalone"), tmp_path))
    assert found is not None and found.rest is None


def test_cluster_mode_of_the_connection_is_cluster_mode(tmp_path: Path) -> None:
    secrets = connect(tmp_path, spark("spark://h:7077", **{"deploy-mode": "cluster"}))
    found = place(resolved("big", settings(backend="standalone", ui="http://ui:8080"), secrets))
    assert found is not None
    assert (found.master, found.rest, found.ui) == ("spark://h:7077", None, "http://ui:8080")


def test_a_yarn_connection_gives_queue_folder_and_web_address(tmp_path: Path) -> None:
    extra = {"queue": "root.theirs", "deploy-mode": "cluster", "hadoop_conf": "/etc/hadoop", "keytab": "c2VjcmV0"}
    secrets = connect(tmp_path, spark("yarn", **extra, yarn_resourcemanager_webapp_address="http://rm:8088/"))
    found = yarn(resolved("big", settings(backend="yarn"), secrets))
    assert found is not None
    assert (found.queue, found.hadoop_conf, found.resource_managers) == (
        "root.theirs", "/etc/hadoop", ("http://rm:8088",),
    )  # fmt: skip
    connect(tmp_path, spark("rm-host", conn_type="yarn"))  # from a URI yarn://rm-host
    assert resolved("big", settings(backend="yarn", queue="ours"), secrets).queue == "ours"


def test_a_kubernetes_connection_gives_the_namespace(tmp_path: Path) -> None:
    entry = {"backend": "kubernetes", "image": "r/lakeward:1"}
    document = {"conn_type": "kubernetes", "extra": {"extra__kubernetes__namespace": "streams"}}
    secrets = connect(tmp_path, document, "kubernetes")
    found = pod([], resolved("big", settings(**entry), secrets))
    assert found is not None
    assert (found.namespace, found.connection) == ("streams", "prod")
    connect(tmp_path, {"conn_type": "kubernetes"}, "kubernetes")
    assert resolved("big", settings(**entry), secrets).namespace == "default"
    assert resolved("big", settings(**entry, namespace="ours"), secrets).namespace == "ours"


def test_the_connection_of_airflow_comes_before_a_file_of_the_home(tmp_path: Path) -> None:
    connect(tmp_path, [spark("spark://own:7077")], by="")  # as `airflow connections get` prints it
    assert resolved("big", settings(backend="standalone"), tmp_path).master == "spark://own:7077"
    connect(tmp_path, spark("spark://theirs:7077"))
    assert resolved("big", settings(backend="standalone"), tmp_path).master == "spark://theirs:7077"


def test_an_entry_without_a_connection_is_as_it_is_written() -> None:
    written = Settings.model_validate({"drivers": {"big": {"backend": "standalone", "master": "spark://h:7077"}}})
    assert resolved("big", written, None) is written.drivers["big"]  # type: ignore[index]  # a name as it is written
    assert resolved("undeclared", written, None) == Driver()


def test_a_connection_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    connect(tmp_path, spark("spark://h:7077"))
    given = Settings.model_validate({"drivers": {"big": {"backend": "standalone", "connection": "gone"}}})
    with pytest.raises(SpecError) as error:
        resolved("big", given, tmp_path)
    assert (error.value.code, error.value.why) == ("LW-2581", "known connections: prod")
    assert "type spark" in error.value.next and str(tmp_path / "spark" / "gone.json") in error.value.next
    with pytest.raises(SpecError, match="LW-2581"):
        resolved("big", given, None)


@pytest.mark.parametrize("content", [["no", "object"], {"host": "yarn", "extra": ["q"]}, {"extra": "{"}, {"port": "x"}])
def test_what_is_no_connection_is_refused_with_its_file(tmp_path: Path, content: object) -> None:
    error = refusal(connect(tmp_path, content), backend="yarn")
    assert error.code == "LW-2582" and "prod.json" in error.why


def test_a_connection_of_another_type_is_refused_with_the_valid_one(tmp_path: Path) -> None:
    error = refusal(connect(tmp_path, spark("h", 10000, conn_type="hiveserver2")), backend="standalone")
    assert error.code == "LW-2583" and error.why == "it is of type hiveserver2, not spark"
    document = spark("k8s://https://h:6443")
    error = refusal(connect(tmp_path, document, "kubernetes"), backend="kubernetes", image="r/l:1")
    assert error.code == "LW-2583" and "not kubernetes" in error.why


@pytest.mark.parametrize(
    ("given", "backend", "words"),
    [
        (spark(), "standalone", "it has no host, and so no master"),
        (spark("yarn"), "standalone", "its master is yarn, which is of backend yarn"),
        (spark("spark://h:7077"), "yarn", "which is of backend standalone; the driver has backend yarn"),
        (spark("k8s://https://h:6443"), "standalone", "which is of backend kubernetes"),
        (spark("local[2]"), "standalone", "which is of backend local"),
        (spark("mesos://h:5050"), "standalone", "which no backend has"),
    ],
)
def test_a_master_of_another_kind_is_refused_with_both_named(
    tmp_path: Path, given: dict[str, Any], backend: str, words: str
) -> None:
    error = refusal(connect(tmp_path, given), backend=backend)
    assert error.code == "LW-2585" and words in error.why
    assert ("spark://HOST:PORT" if backend == "standalone" else "its host: yarn") in error.next


def test_client_mode_on_yarn_is_refused(tmp_path: Path) -> None:
    error = refusal(connect(tmp_path, spark("yarn", **{"deploy-mode": "client"})), backend="yarn")
    assert error.code == "LW-2584" and "runs in cluster mode" in error.why


@pytest.mark.parametrize(
    ("entry", "kind", "document", "words"),
    [
        (
            {"backend": "standalone", "master": "spark://a:7077", "deploy_mode": "client"}, "spark",
            spark("spark://b:7077", **{"deploy-mode": "cluster"}),
            "master is spark://b:7077 there, and spark://a:7077 in the entry; deploy_mode is cluster there, and client",
        ),
        ({"backend": "yarn", "queue": "ours"}, "spark", spark("yarn", queue="theirs"), "queue is theirs there, and"),
        (
            {"backend": "kubernetes", "image": "r/l:1", "namespace": "ours"}, "kubernetes",
            {"conn_type": "kubernetes", "extra": {"namespace": "theirs"}}, "namespace is theirs there, and ours",
        ),
    ],
)  # fmt: skip
def test_values_that_disagree_are_refused_with_both_named(
    tmp_path: Path, entry: dict[str, Any], kind: str, document: dict[str, Any], words: str
) -> None:
    error = refusal(connect(tmp_path, document, kind), **entry)
    assert error.code == "LW-2587" and words in error.why


def test_equal_values_in_both_are_fine(tmp_path: Path) -> None:
    secrets = connect(tmp_path, spark("spark://a:7077", **{"deploy-mode": "client"}))
    entry = {"backend": "standalone", "master": "spark://a:7077", "deploy_mode": "client"}
    assert resolved("big", settings(**entry), secrets).master == "spark://a:7077"


@pytest.mark.parametrize(
    ("name", "entry", "extra", "words"),
    [
        ("big", {"authenticate": True}, {"deploy-mode": "cluster"}, "authenticate is not supported"),
        (str(MAINTENANCE), {}, {"deploy-mode": "cluster"}, "deploy_mode: cluster is for drivers of streams"),
        ("big", {"rest": "http://h:6066"}, {}, "rest needs deploy_mode: cluster"),
        ("big", {}, {"deploy-mode": "both"}, "'client' or 'cluster'"),
    ],
)
def test_a_connection_that_does_not_fit_the_entry_is_refused(
    tmp_path: Path, name: str, entry: dict[str, Any], extra: dict[str, Any], words: str
) -> None:
    error = refusal(connect(tmp_path, spark("spark://h:7077", **extra)), name, backend="standalone", **entry)
    assert error.code == "LW-2588" and words in error.why
    error = refusal(connect(tmp_path, spark("spark://h")), name, backend="standalone")
    assert error.code == "LW-2588" and "spark://HOST:PORT" in error.why
