"""What a connection of Airflow's type `kubernetes` says: the way to the API of a cluster, and a namespace.

The fields are those of Airflow's Kubernetes provider (`KubernetesHook`), with the same meaning, also under their old
names with the prefix `extra__kubernetes__`. At most one of `in_cluster`, `kube_config_path` and `kube_config` is given.
Without one it is the service account of the pod, else the user's own kubeconfig.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakeward.connectors.cluster.connection import HOW, BadConnection, ClusterConnection

PREFIX = "extra__kubernetes__"
FIELDS = ("in_cluster", "kube_config_path", "kube_config", "cluster_context", "namespace", "disable_verify_ssl")
"""The fields of the extra that are used; those of Airflow's own pods are not."""
_FORMS = FIELDS[:3]
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False, "none": False}


@dataclass(frozen=True)
class ApiSettings:
    """How a connection reaches the API of a cluster.

    Attributes:
        in_cluster: by the service account of the pod that this process runs in.
        file: a kubeconfig file; None without one.
        content: the text of a kubeconfig, with its logins; None without one.
        context: of the kubeconfig; None: its current one.
        namespace: of pods; None if the connection names none.
        verify: whether the certificate of the server is verified.
    """

    in_cluster: bool = False
    file: Path | None = None
    content: str | None = field(default=None, repr=False)
    context: str | None = None
    namespace: str | None = None
    verify: bool = True


def fields(extra: Mapping[str, object]) -> dict[str, object]:
    """The used fields of an extra that are not empty, without the old prefix."""
    both = {name: extra.get(name, extra.get(f"{PREFIX}{name}")) for name in FIELDS}
    return {name: value for name, value in both.items() if value not in (None, "", {})}


def settings(connection: ClusterConnection) -> ApiSettings:
    """What a connection says.

    Raises:
        BadConnection: it contradicts itself. The error repeats no kubeconfig.
    """
    given = fields(connection.extra)
    flags = {name: _flag(connection, name, given.get(name)) for name in ("in_cluster", "disable_verify_ssl")}
    chosen = [name for name in _FORMS if flags.get(name, name in given)]
    if len(chosen) > 1:
        raise _contradicts(connection, f"it has {' and '.join(chosen)}", f"keep one of {', '.join(_FORMS)}")
    content = given.get("kube_config")
    path, context, namespace = (
        None if given.get(name) is None else str(given[name]).strip()
        for name in ("kube_config_path", "cluster_context", "namespace")
    )
    return ApiSettings(
        in_cluster=flags["in_cluster"], file=None if path is None else Path(path).expanduser(),
        content=None if content is None else content if isinstance(content, str) else json.dumps(content),
        context=context, namespace=namespace, verify=not flags["disable_verify_ssl"],
    )  # fmt: skip


def _flag(connection: ClusterConnection, name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    found = _TRUTHS.get(str("" if value is None else value).strip().lower())
    if found is None:
        raise _contradicts(connection, f"{name} is neither true nor false", f'"{name}": true, or leave it out')
    return found


def _contradicts(connection: ClusterConnection, why: str, what: str) -> BadConnection:
    return BadConnection(
        f"The connection {connection.id} does not say one way to Kubernetes", why=why,
        next=f"in its extra: {what} ({HOW['kubernetes']}); then: lakeward doctor", code="LW-2586",
    )  # fmt: skip
