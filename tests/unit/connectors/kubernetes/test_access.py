"""Access to the API of Kubernetes: kubeconfig files, a service account, programs for the login, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.kubernetes import access
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError


def write(folder: Path, user: Any = None, **cluster: Any) -> Path:
    file = folder / "kubernetes" / "prod.kubeconfig"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "streams"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "secret-token"}}],
    }
    file.write_text(json.dumps(content))
    return file


def test_a_connection_is_a_kubeconfig_of_the_home(tmp_path: Path) -> None:
    write(tmp_path)
    found = access.find("prod", tmp_path)
    assert (found.server, found.token(), found.namespace) == ("http://127.0.0.1:1", "secret-token", "streams")
    assert "secret-token" not in repr(found)


def test_without_a_connection_it_is_the_pod_s_account_and_then_the_user_s_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path)))
    assert access.find(None, None).named == str(tmp_path / "kubernetes" / "prod.kubeconfig")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("")
    monkeypatch.setattr(access.ssl, "create_default_context", lambda **_: None)
    found = access.find(None, None)
    assert (found.server, found.token()) == ("https://10.0.0.1:443", "first")
    (tmp_path / "token").write_text("renewed\n")
    assert found.token() == "renewed"


def test_a_token_file_is_read_at_each_use_relative_to_its_kubeconfig(tmp_path: Path) -> None:
    file = write(tmp_path, {"tokenFile": "token"})
    (file.parent / "token").write_text("one")
    found = access.of_kubeconfig(file)
    assert found.token() == "one"
    (file.parent / "token").write_text("two")
    assert found.token() == "two"


def test_a_program_of_the_kubeconfig_gives_the_login(tmp_path: Path) -> None:
    program = "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
    program += "print(json.dumps({'status': {'token': info['kind'] + os.environ['MORE']}}))"
    given = {"command": sys.executable, "args": ["-c", program], "env": [{"name": "MORE", "value": "-1"}]}
    assert access.of_kubeconfig(write(tmp_path, {"exec": given})).token() == "ExecCredential-1"


@pytest.mark.parametrize(
    ("program", "why"),
    [("import sys; sys.exit('log in first')", "exit code 1: log in first"), ("print('{}')", "KeyError")],
)
def test_a_program_that_fails_is_a_dependency_that_is_down(tmp_path: Path, program: str, why: str) -> None:
    given = {"command": sys.executable, "args": ["-c", program]}
    with pytest.raises(DependencyDown) as error:
        access.of_kubeconfig(write(tmp_path, {"exec": given}))
    assert error.value.code == "LW-2563" and why in error.value.why


@pytest.mark.parametrize(
    ("user", "cluster", "why"),
    [
        ({"auth-provider": {}}, {}, "auth-provider"),
        ({"tokenFile": "nowhere"}, {}, "the token cannot be read"),
        (None, {"server": "h:6443"}, "has no server"),
        (None, {"server": "https://h:6443", "certificate-authority": "nowhere"}, "its certificates cannot be used"),
        (None, {"server": "https://h:6443", "certificate-authority-data": "eHg="}, "its certificates cannot be used"),
    ],
)
def test_what_cannot_be_used_is_said_with_the_file(tmp_path: Path, user: Any, cluster: Any, why: str) -> None:
    file = write(tmp_path, user, **cluster)
    with pytest.raises(SpecError) as error:
        access.of_kubeconfig(file).token()
    assert error.value.code == "LW-2549"
    assert str(file.parent) in error.value.why and why in error.value.why


@pytest.mark.parametrize("text", ["- a", "users: [{token: secret-token", "current-context: x\ncontexts: []\n"])
def test_a_file_that_is_no_kubeconfig_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    file = write(tmp_path)
    file.write_text(text)
    with pytest.raises(LakewardError) as error:
        access.of_kubeconfig(file)
    assert error.value.code == "LW-2549" and "secret-token" not in str(error.value)


def test_a_connection_without_its_file_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        access.find("prod", tmp_path)
    assert error.value.code == "LW-2581"
    assert "kubernetes/prod.kubeconfig" in error.value.next and "type kubernetes" in error.value.next


def connect(folder: Path, **extra: Any) -> Path:
    file = folder / "airflow" / "kubernetes" / "prod.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"conn_type": "kubernetes", "extra": extra}))
    return folder


@pytest.mark.parametrize("prefix", ["", "extra__kubernetes__"])
def test_an_airflow_connection_names_a_kubeconfig_and_its_context(tmp_path: Path, prefix: str) -> None:
    file = write(tmp_path / "theirs")
    content = json.loads(file.read_text())
    content["contexts"].append({"name": "other", "context": {"cluster": "k", "namespace": "elsewhere"}})
    file.write_text(json.dumps(content))
    connect(tmp_path, **{f"{prefix}kube_config_path": str(file), f"{prefix}in_cluster": False})
    found = access.find("prod", tmp_path)
    assert (found.named, found.token(), found.namespace) == (str(file), "secret-token", "streams")
    connect(tmp_path, **{f"{prefix}kube_config_path": str(file), f"{prefix}cluster_context": "other"})
    found = access.find("prod", tmp_path)
    assert (found.token(), found.namespace) == ("", "elsewhere")
    connect(tmp_path, **{f"{prefix}kube_config_path": str(file), f"{prefix}cluster_context": "gone"})
    with pytest.raises(SpecError, match="it has no context gone; it has: c, other"):
        access.find("prod", tmp_path)


@pytest.mark.parametrize("as_text", [True, False])
def test_an_airflow_connection_has_a_kubeconfig_of_its_own(tmp_path: Path, as_text: bool) -> None:
    content = json.loads(write(tmp_path / "theirs").read_text())
    connect(tmp_path, kube_config=json.dumps(content) if as_text else content)
    found = access.find("prod", tmp_path)
    assert (found.server, found.token()) == ("http://127.0.0.1:1", "secret-token")
    connect(tmp_path, kube_config="{token: secret-token")
    with pytest.raises(SpecError) as error:
        access.find("prod", tmp_path)
    assert error.value.code == "LW-2549" and "secret-token" not in str(error.value)


def test_an_airflow_connection_comes_before_a_kubeconfig_of_the_home(tmp_path: Path) -> None:
    write(tmp_path)
    other = write(tmp_path / "theirs", server="http://127.0.0.1:2")
    assert access.find("prod", tmp_path).server == "http://127.0.0.1:1"
    connect(tmp_path, kube_config_path=str(other))
    assert access.find("prod", tmp_path).server == "http://127.0.0.1:2"


def test_an_airflow_connection_may_say_that_airflow_runs_in_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "own")))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    connect(tmp_path, in_cluster=True, disable_verify_ssl="true")
    with pytest.raises(SpecError, match="this process runs in no pod"):
        access.find("prod", tmp_path)
    connect(tmp_path)
    assert access.find("prod", tmp_path).named == str(tmp_path / "own" / "kubernetes" / "prod.kubeconfig")
    (tmp_path / "token").write_text("of the pod")
    trust = access.ssl.SSLContext(access.ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(access.ssl, "create_default_context", lambda **_: trust)
    assert access.find("prod", tmp_path).token() == "of the pod"
    assert trust.verify_mode is access.ssl.CERT_REQUIRED
    connect(tmp_path, in_cluster=True, disable_verify_ssl="true")
    assert access.find("prod", tmp_path).server == "https://10.0.0.1:443"
    assert trust.verify_mode is access.ssl.CERT_NONE


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"in_cluster": True, "kube_config_path": "/k"}, "in_cluster and kube_config_path"),
        ({"kube_config": "{token: secret-token}", "kube_config_path": "/k"}, "kube_config_path and kube_config"),
        ({"in_cluster": "perhaps"}, "in_cluster is neither true nor false"),
    ],
)
def test_an_airflow_connection_that_contradicts_itself_is_refused(
    tmp_path: Path, extra: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as error:
        access.find("prod", connect(tmp_path, **extra))
    assert error.value.code == "LW-2586" and words in error.value.why
    assert "secret-token" not in str(error.value)
