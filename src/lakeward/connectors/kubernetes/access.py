"""Access to the API of a Kubernetes cluster: address, trust and login, as `kubectl` finds them.

A driver's `connection:` is one of Airflow's type `kubernetes` (`connectors.cluster`), or a file of the home,
`kubernetes/<id>.kubeconfig`. Without one it is the service account of the pod that this process runs in, else
`KUBECONFIG` or `~/.kube/config`. A login is read when it is used, so that a
token that was renewed in its file is used, and it is in no argument, environment or log. See docs/adr/0104.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.connectors.cluster import connection as clusters
from lakeward.connectors.cluster import kubernetes
from lakeward.platform.errors import DependencyDown, SpecError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOW = "docs/how-to/run-drivers-on-kubernetes.md"
EXEC_S = 30.0
"""How long a program that a kubeconfig names for the login may take."""


@dataclass(frozen=True)
class Access:
    """How to reach one API server.

    Attributes:
        server: its address.
        named: where this was read, for messages.
        trust: certificates of the server and of this client; None for plain HTTP.
        token: returns the bearer token; empty without one.
        namespace: of the service account or the context; empty if none is given.
    """

    server: str
    named: str
    trust: ssl.SSLContext | None
    token: Callable[[], str]
    namespace: str = ""


def find(connection: str | None, connections: Path | None) -> Access:
    """The access that a driver names.

    Args:
        connection: its id; None: the machine's own.
        connections: folder with the connections, as in `Runtime`.

    Raises:
        SpecError: there is none, or its file cannot be used.
        DependencyDown: the program that gets the login fails.
    """
    if connection is None:
        return _of_the_machine(kubernetes.ApiSettings())
    given = clusters.find("kubernetes", connection, connections)
    if given is None:
        file = None if connections is None else connections / "kubernetes" / f"{connection}{clusters.KUBECONFIG}"
        if file is None or not file.exists():
            raise clusters.missing("kubernetes", connection, connections)
        return of_kubeconfig(file)
    settings = kubernetes.settings(given)
    if settings.content is not None:
        return _of_text(settings.content, given.file, settings)
    return _of_the_machine(settings) if settings.file is None else of_kubeconfig(settings.file, settings)


def _of_the_machine(settings: kubernetes.ApiSettings) -> Access:
    """The service account of this pod, else the user's own kubeconfig."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host and (SERVICE_ACCOUNT / "token").exists():
        return of_service_account(host, port, settings)
    if settings.in_cluster:
        raise _unusable(str(SERVICE_ACCOUNT), "the connection says in_cluster, and this process runs in no pod")
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return of_kubeconfig(Path(named) if named else Path.home() / ".kube" / "config", settings)


def server(host: str, port: str) -> str:
    """The address of the API that a node gives to each container."""
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def of_service_account(
    host: str, port: str, settings: kubernetes.ApiSettings | None = None, folder: Path | None = None
) -> Access:
    """The service account of the pod that this process runs in.

    Args:
        folder: with its token and the certificates of the API; default: where Kubernetes mounts them.
    """
    folder = folder or SERVICE_ACCOUNT
    space = folder / "namespace"
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    return Access(
        server(host, port), "the service account of this pod", _verified(trust, settings is None or settings.verify),
        _of_file(folder / "token"), space.read_text().strip() if space.exists() else "",
    )  # fmt: skip


def of_kubeconfig(file: Path, settings: kubernetes.ApiSettings | None = None) -> Access:
    """A kubeconfig file: the context that the connection names, else its current one."""
    try:
        text = file.read_text()
    except (OSError, ValueError) as error:
        raise _unusable(str(file), getattr(error, "strerror", None) or "it is no text") from None
    return _of_text(text, file, settings or kubernetes.ApiSettings())


def _of_text(text: str, file: Path, settings: kubernetes.ApiSettings) -> Access:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError):
        raise _unusable(str(file), "it is no YAML") from None  # the text of the error may repeat a secret
    if not isinstance(content, Mapping):
        raise _unusable(str(file), "it is no kubeconfig")
    context = _entry(content, "contexts", settings.context or content.get("current-context"), "context", file)
    cluster = _entry(content, "clusters", context.get("cluster"), "cluster", file)
    user = _entry(content, "users", context.get("user"), "user", file) if context.get("user") else {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise _unusable(str(file), f"its cluster {context.get('cluster')} has no server: http(s)://..")
    if "auth-provider" in user:
        raise _unusable(str(file), "its user has an auth-provider, which Kubernetes removed in 1.26: write exec")
    granted = _granted(user["exec"], file) if "exec" in user else {}
    token = str(granted.get("token") or user.get("token") or "")
    source = _of_file(_path(user["tokenFile"], file)) if user.get("tokenFile") and not token else lambda: token
    try:
        trust = _trust(cluster, {**user, **_as_user(granted)}, file) if server.startswith("https://") else None
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = f"its certificates cannot be used: {getattr(error, 'strerror', None) or type(error).__name__}"
        raise _unusable(str(file), why) from None
    trust = trust and _verified(trust, settings.verify)
    return Access(server.rstrip("/"), str(file), trust, source, str(context.get("namespace") or ""))


def _entry(content: Mapping[str, Any], kind: str, name: object, key: str, file: Path) -> Mapping[str, Any]:
    for each in content.get(kind) or ():
        if isinstance(each, Mapping) and each.get("name") == name and isinstance(each.get(key), Mapping):
            found: Mapping[str, Any] = each[key]
            return found
    names = ", ".join(str(each.get("name")) for each in content.get(kind) or () if isinstance(each, Mapping)) or "none"
    raise _unusable(str(file), f"it has no {key} {name or '(current-context is not set)'}; it has: {names}")


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any], file: Path) -> ssl.SSLContext:
    data, path = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    if data:
        trust = ssl.create_default_context(cadata=base64.b64decode(str(data)).decode())
    else:
        trust = ssl.create_default_context(cafile=str(_path(path, file)) if path else None)
    trust = _verified(trust, cluster.get("insecure-skip-tls-verify") is not True)
    with tempfile.TemporaryDirectory(prefix="lakeward-kubernetes-") as folder:  # mode 0700; read at once
        chain = _pem(user, "client-certificate", Path(folder), file)
        key = _pem(user, "client-key", Path(folder), file)
        if chain is not None:
            trust.load_cert_chain(chain, key)
    return trust


def _verified(trust: ssl.SSLContext, verify: bool) -> ssl.SSLContext:
    if not verify:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return trust


def _pem(user: Mapping[str, Any], name: str, folder: Path, file: Path) -> Path | None:
    """The file of a certificate or key, which `ssl` reads from files alone."""
    if data := user.get(f"{name}-data"):
        made = folder / name
        made.write_bytes(base64.b64decode(str(data)))
        return made
    return _path(user[name], file) if user.get(name) else None


def _granted(given: Mapping[str, Any], file: Path) -> Mapping[str, Any]:
    """What the program of a kubeconfig's `exec` answers, e.g. that of a cloud."""
    command = [str(given.get("command") or ""), *map(str, given.get("args") or ())]
    added = {str(each["name"]): str(each["value"]) for each in given.get("env") or ()}
    version = str(given.get("apiVersion") or "client.authentication.k8s.io/v1")
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=EXEC_S, check=False, cwd=file.parent,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        status = json.loads(answer.stdout)["status"] if answer.returncode == 0 else None
        why = f"exit code {answer.returncode}: {answer.stderr.strip()[-300:]}"
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        status, why = None, type(error).__name__ if not isinstance(error, OSError) else str(error.strerror)
    if not isinstance(status, Mapping):
        raise DependencyDown(
            "The program that logs in to Kubernetes failed", why=f"{command[0]}, named by exec in {file}: {why}",
            next=f"run it by hand, then: kubectl --kubeconfig {file} get pods", code="LW-2563",
        )  # fmt: skip
    return status


def _as_user(granted: Mapping[str, Any]) -> dict[str, str]:
    """A certificate that the program answers, in the names of a kubeconfig."""
    pairs = (("clientCertificateData", "client-certificate-data"), ("clientKeyData", "client-key-data"))
    return {key: base64.b64encode(str(granted[name]).encode()).decode() for name, key in pairs if granted.get(name)}


def _of_file(file: Path) -> Callable[[], str]:
    def read() -> str:
        try:
            return file.read_text().strip()
        except OSError as error:
            raise _unusable(str(file), f"the token cannot be read: {error.strerror}") from None

    return read


def _path(written: object, file: Path) -> Path:
    """A path of a kubeconfig is relative to the folder of the file."""
    return file.parent / str(written)


def _unusable(place: str, why: str) -> SpecError:
    return SpecError(
        "No access to the API of Kubernetes", why=f"{place}: {why}",
        next=f"put a kubeconfig there, or correct connection: of the driver in conf/lakeward.yaml ({HOW})",
        code="LW-2549",
    )  # fmt: skip
