"""What `doctor` and `config validate --deep` say about the places of drivers on Kubernetes; a stand-in answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kube_api import KubeApi, refused, running

from lakeward.connectors.kubernetes.examine import Answer, examine
from lakeward.platform.runtime import Project
from lakeward.spec.model.settings import Settings


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with running() as found:
        yield found


@pytest.fixture
def connections(kube: KubeApi, tmp_path: Path) -> Path:
    file = tmp_path / "kubernetes" / "test.kubeconfig"
    file.parent.mkdir()
    file.write_text(
        json.dumps({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{kube.port}"}}],
            "users": [{"name": "u", "user": {"token": "a-token"}}],
        })
    )  # fmt: skip
    return tmp_path


def asked(connections: Path, namespace: str = "streams") -> Answer:
    entry = {"backend": "kubernetes", "image": "lakeward:1", "namespace": namespace, "connection": "test"}
    [found] = examine(Settings.model_validate({"drivers": {"big": entry, "small": {}}}), connections)
    return found


def test_a_place_that_a_driver_can_run_in(connections: Path, kube: KubeApi) -> None:
    found = asked(connections)
    assert (found.found, found.next) == ("Kubernetes v1.36.3 allows create, get, list, delete", "")
    assert set(kube.logins) == {"Bearer a-token"}


def test_rights_that_are_missing_are_named(connections: Path, kube: KubeApi) -> None:
    kube.denied = {"delete", "list"}
    found = asked(connections)
    assert "does not allow list, delete of pods in streams" in found.found
    assert "kubectl apply -k deploy/kubernetes" in found.next


def test_a_namespace_that_is_missing_or_goes_is_named(connections: Path, kube: KubeApi) -> None:
    kube.refusals["GET /api/v1/namespaces/nowhere"] = (404, refused("NotFound", "not found", "namespaces"))
    assert "has no namespace nowhere" in asked(connections, "nowhere").found
    kube.refusals["GET /api/v1/namespaces/streams"] = (200, {"status": {"phase": "Terminating"}})
    assert "has no namespace streams that lasts" in asked(connections).found


def test_a_namespace_that_may_not_be_read_is_no_problem(connections: Path, kube: KubeApi) -> None:
    kube.refusals["GET /api/v1/namespaces/streams"] = (403, refused("Forbidden", "cannot get", "namespaces"))
    assert asked(connections).next == ""


def test_an_api_that_refuses_the_login_is_named(connections: Path, kube: KubeApi) -> None:
    kube.refusals["GET /version"] = (401, refused("Unauthorized", "Unauthorized"))
    assert "refuses the login [LW-2552]" in asked(connections).found


def test_deep_validation_points_at_the_driver(connections: Path, kube: KubeApi, tmp_path: Path) -> None:
    from lakeward.cli.deep import cluster_problems
    from lakeward.platform.runtime import Home
    from lakeward.spec.read.loader import load_project

    kube.denied = {"create"}
    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    (root / "conf" / "lakeward.yaml").write_text(
        "drivers:\n  big: {backend: kubernetes, image: 'lakeward:1', namespace: streams, connection: test}\n"
    )
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.secrets.symlink_to(connections)
    [problem] = cluster_problems(Project(root), home, load_project(Project(root)))
    assert (problem.file, problem.line, problem.path, problem.severity) == (
        "conf/lakeward.yaml", 2, "drivers.big", "error",
    )  # fmt: skip
    assert "does not allow create" in problem.message
