"""`deploy/kubernetes`: every manifest is listed and valid, and gives exactly the rights that Lakeward uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lakeward.connectors.kubernetes import executor_pods
from lakeward.connectors.kubernetes.examine import VERBS

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
BASE: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    each for name in BASE["resources"] for each in yaml.safe_load_all((FOLDER / name).read_text())
]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["kind"] == kind]


def test_every_manifest_is_listed_and_named() -> None:
    assert sorted(BASE["resources"]) == sorted(
        file.name for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml"
    )
    assert all(each["apiVersion"] and each["metadata"]["name"] for each in OBJECTS)
    assert not of_kind("Secret"), "a secret does not belong into the repository"
    assert not of_kind("CustomResourceDefinition")


def test_the_role_has_the_rights_that_are_used_and_no_other() -> None:
    [role] = of_kind("Role")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": list(VERBS)}]
    assert not of_kind("ClusterRole") and not of_kind("ClusterRoleBinding")


def test_the_rights_are_those_of_whatever_reconciles_and_not_of_drivers() -> None:
    [binding] = of_kind("RoleBinding")
    [role] = of_kind("Role")
    accounts = {each["metadata"]["name"]: each for each in of_kind("ServiceAccount")}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == ["lakeward"]
    assert set(accounts) == {"lakeward", "lakeward-driver"}
    assert accounts["lakeward-driver"]["automountServiceAccountToken"] is False


def test_all_of_it_is_in_one_namespace() -> None:
    [space] = of_kind("Namespace")
    [binding] = of_kind("RoleBinding")
    assert {BASE["namespace"], space["metadata"]["name"], binding["subjects"][0]["namespace"]} == {"streams"}


def test_drivers_with_executors_have_rights_on_pods_alone() -> None:
    folder = FOLDER / "executors"
    given = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert given["resources"] == ["role.yaml", "role-binding.yaml"] and given["namespace"] == BASE["namespace"]
    role, binding = (yaml.safe_load((folder / name).read_text()) for name in given["resources"])
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": list(executor_pods.VERBS)}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == ["lakeward-driver"]
