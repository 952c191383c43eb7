"""Airflow's connections to the clusters of drivers, as files of the home."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from airflow_given import Given

from lakeward.airflow.connection_files import ADAPTERS
from lakeward.connectors.cluster.resolve import resolved
from lakeward.connectors.kubernetes import access
from lakeward.platform import private
from lakeward.platform.runtime import Home, Lake, Project, Runtime
from lakeward.registry import drivers, launches
from lakeward.registry.engine import connect
from lakeward.spec.read.loader import load_settings

SPARK, KUBERNETES = ADAPTERS["spark"], ADAPTERS["kubernetes"]
DRIVERS = """\
drivers:
  one: {backend: standalone, connection: spark_prod}
  two: {backend: yarn, connection: yarn_prod}
  pod: {backend: kubernetes, image: r/lakeward:1, connection: k8s_prod}
"""
KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "s3cret-token"}}],
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    (root / "conf" / "lakeward.yaml").write_text(DRIVERS)
    monkeypatch.setenv("LAKEWARD_PROJECT", str(root))
    return Project.locate()


def deployment(folder: Path, url: str = "postgresql://nobody@127.0.0.1:9/none", pgpass: Path | None = None) -> Runtime:
    return Runtime(
        registry_url_file=private.write(folder / "url", url), pgpass=pgpass, lake=Lake(warehouse="/w"),
        checkpoints="/c", drivers=folder, jars=folder, connections=folder / "secrets",
    )  # fmt: skip


def test_those_that_drivers_name_are_written_also_while_the_registry_is_away(tmp_path: Path, project: Project) -> None:
    runtime = deployment(tmp_path)
    assert (SPARK.named(runtime), KUBERNETES.named(runtime)) == ({"spark_prod", "yarn_prod"}, {"k8s_prod"})
    (project.settings_file).write_text("drivers: {core: {cores: 1}}\n")
    assert SPARK.named(runtime) == KUBERNETES.named(runtime) == set()
    project.settings_file.unlink()
    assert SPARK.named(runtime) == set()


def test_airflow_s_connection_is_the_master_of_a_driver_and_its_keytab_is_not_stored(
    tmp_path: Path, project: Project
) -> None:
    runtime = deployment(tmp_path)
    extra: dict[str, object] = {"deploy-mode": "client", "keytab": "s3cret", "principal": "p", "queue": "root.q"}
    given = {
        "spark_prod": Given("spark://h", 7077, "u", "s3cret", None, dict(extra), "spark"),
        "yarn_prod": Given("yarn", None, None, None, None, {"queue": "root.q"}, "spark"),
    }
    SPARK.keep(runtime, Home(tmp_path), SPARK.named(runtime), given.get)
    files = sorted((tmp_path / "secrets" / "airflow" / "spark").iterdir())
    assert [file.stem for file in files] == ["spark_prod", "yarn_prod"]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 and "s3cret" not in file.read_text() for file in files)
    settings = load_settings(project)
    assert resolved("one", settings, runtime.connections).master == "spark://h:7077"
    assert resolved("two", settings, runtime.connections).queue == "root.q"


def test_airflow_s_kubernetes_connection_is_the_access_to_its_api(tmp_path: Path, project: Project) -> None:
    runtime = deployment(tmp_path)
    extra: dict[str, object] = {
        "extra__kubernetes__kube_config": json.dumps(KUBECONFIG), "namespace": "streams",
        "xcom_sidecar_container_image": "i",
    }  # fmt: skip
    given = Given(extra_dejson=extra, conn_type="kubernetes")
    KUBERNETES.keep(runtime, Home(tmp_path), ["k8s_prod"], {"k8s_prod": given}.get)
    [file] = (tmp_path / "secrets" / "airflow" / "kubernetes").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "xcom" not in file.read_text()
    found = access.find("k8s_prod", runtime.connections)
    assert (found.server, found.token()) == ("http://127.0.0.1:1", "s3cret-token")
    assert "s3cret" not in repr(found)
    assert resolved("pod", load_settings(project), runtime.connections).namespace == "streams"


def test_the_connection_of_a_pod_that_runs_is_kept_when_its_entry_names_another(
    tmp_path: Path, project: Project, postgres: Any
) -> None:
    url = postgres.url(postgres.create_registry())
    runtime = deployment(tmp_path, url, postgres.pgpass)
    place = {"namespace": "n", "connection": "before"}
    with connect(url, postgres.pgpass) as registry:
        drivers.record_intent(registry, "pod", token="t", previous=None, backend="kubernetes")
        launches.record(registry, "launch", driver="pod", token="t", document={}, place=place)
        drivers.record_intent(registry, "two", token="y", previous=None, backend="yarn")
        of_before = {"queue": "q", "connection": "yarn_prod"}  # as an earlier version recorded a launch on YARN
        launches.record(registry, "yarn", driver="two", token="y", document={}, place=of_before)
    assert KUBERNETES.named(runtime) == {"before", "k8s_prod"}
    given = Given(conn_type="kubernetes")
    KUBERNETES.keep(runtime, Home(tmp_path), ["before"], {"before": given}.get)
    [file] = (tmp_path / "secrets" / "airflow" / "kubernetes").iterdir()
    os.utime(file, (0, 0))
    KUBERNETES.keep(runtime, Home(tmp_path), KUBERNETES.named(runtime), {}.get)
    assert file.exists()
    away = deployment(tmp_path)
    assert KUBERNETES.named(away) == {"before", "k8s_prod"}, "the registry is down: ids with a file are kept"


def test_airflow_s_own_spark_hook_agrees_about_the_cluster(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection

    extra: dict[str, Any] = {"deploy-mode": "cluster", "rest-scheme": "https", "rest-port": 6166}
    settings = load_settings(project)
    for uri_or_form in (("spark://h:7077", None), ("spark://h", 7077), ("h", 7077)):
        host, port = uri_or_form
        given = Connection(conn_id="spark_prod", conn_type="spark", host=host, port=port, extra=json.dumps(extra))
        monkeypatch.setattr(SparkSubmitHook, "get_connection", lambda self, name, given=given: given)
        theirs = SparkSubmitHook(conn_id="spark_prod")._connection
        SPARK.keep(deployment(tmp_path), Home(tmp_path), ["spark_prod"], {"spark_prod": given}.get)
        ours = resolved("one", settings, tmp_path / "secrets")
        assert (str(ours.master), ours.deploy_mode) == (theirs["master"], theirs["deploy_mode"])
        assert str(ours.rest) == theirs["rest_endpoint"] == "https://h:6166"
