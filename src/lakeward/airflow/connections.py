"""Airflow connections: they become the `Runtime`, the addresses and secrets of Lakeward under Airflow.

| id | type | gives |
|---|---|---|
| `lakeward_registry` | postgres | host, port, schema, login; a password, unless `PGPASSFILE` has it |
| `lakeward_kafka`, and any other that a stream names | kafka | librdkafka's properties in extra, or host and port |
| those that Python sinks name | any | all fields, to the function |
| that of the catalog, and those that sources name | aws | login, password, `region_name`, `endpoint_url` in extra |
| the login of a REST catalog | iceberg | login, password, and Iceberg's names in extra |
| those that `drivers:` name, standalone and YARN | spark | host and port: the master; queue, deploy mode in extra |
| those that `drivers:` name, Kubernetes | kubernetes | `in_cluster`, a kubeconfig, context and namespace in extra |
| those that streams land in | postgres | host, port, schema, login, password, TLS in extra |
| `lakeward_connect` | spark_connect | host, port and token (password) of the warm Spark Connect server |

The deployment's own settings (catalog, checkpoints, folders) are in `<home>/runtime.json`. Secrets reach a driver in
0600 files, never in an argument, a Spark conf, an XCom or the registry.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakeward.airflow.connection_files import ADAPTERS, AirflowConnection, escape
from lakeward.platform.runtime import Home, Project, Runtime, databases
from lakeward.supervision.observe import Connect
from lakeward.supervision.reconcile import registry_of

if TYPE_CHECKING:
    from airflow.sdk import Connection

REGISTRY = "lakeward_registry"
CONNECT = "lakeward_connect"
ALWAYS = (REGISTRY,)


def home() -> Home:
    """The home of this Airflow."""
    return Home.locate(None, Project.locate())


def runtime(*, spark: bool = False) -> Runtime:
    """The addresses of this deployment, for a task; with `spark` also those of the connect server.

    Raises:
        LakewardError: `runtime.json` is missing.
    """
    from airflow.sdk import BaseHook

    def get(name: str) -> AirflowConnection | None:
        return optional(BaseHook.get_connection, name)

    names = (*ALWAYS, CONNECT) if spark else ALWAYS
    addresses = compose(home(), {name: get(name) for name in names})
    for adapter in ADAPTERS.values():
        adapter.keep(addresses, home(), adapter.named(addresses), get)
    own_databases = databases(home().secrets)
    return addresses.model_copy(update={"postgres": {**addresses.postgres, **own_databases}})


async def runtime_async() -> Runtime:
    """The addresses of this deployment, inside the triggerer's event loop."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    connections: dict[str, Connection | None] = {}
    for name in ALWAYS:
        try:
            connections[name] = await BaseHook.aget_connection(name)
        except AirflowNotFoundException:
            connections[name] = None
    # The files of the connections that streams name were written by the tasks before; launched drivers use them.
    addresses = compose(home(), connections)
    return addresses.model_copy(update={"postgres": {**addresses.postgres, **databases(home().secrets)}})


def registry() -> Connect:
    """Returns a function that opens a transaction on the registry, for a task."""
    return registry_of(runtime())


def compose(place: Home, connections: Mapping[str, AirflowConnection | None]) -> Runtime:
    """`runtime.json` overridden by the connections; a connection that is not defined changes nothing."""
    base = Runtime.load(place.runtime_file)
    update: dict[str, object] = {}
    connect = connections.get(CONNECT)
    if connect is not None and connect.host:
        # With a token and without TLS the client connects only to a host named `localhost`; 127.0.0.1 hangs.
        host = _bare(connect.host).replace("127.0.0.1", "localhost")
        update["connect"] = f"{host}:{connect.port or 15002}"
        if connect.password and not _holds(base.connect_token_file, connect.password):
            update["connect_token_file"] = _private(place, "connect.token", connect.password)
    registry = connections.get(REGISTRY)
    if registry is not None and registry.host:
        url = _url(registry)
        if not _holds(base.registry_url_file, url):
            update["registry_url_file"] = _private(place, "registry.url", url)
        if registry.password and not _has_password(base.pgpass, registry):
            update["pgpass"] = _private(place, "pgpass", _pgpass(base.pgpass, registry))
    return base.model_copy(update=update)


def optional(get: Callable[[str], Any], name: str) -> AirflowConnection | None:
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        connection: AirflowConnection = get(name)
    except AirflowNotFoundException:
        return None
    return connection


def _url(connection: AirflowConnection) -> str:
    login = quote(connection.login or "lakeward", safe="")
    return (
        f"postgresql+psycopg2://{login}@{connection.host}:{connection.port or 5432}/{connection.schema or 'lakeward'}"
    )


def _bare(host: str) -> str:
    return host.split("://", 1)[-1].rstrip("/")


def _pgpass_line(connection: AirflowConnection) -> str:
    fields = [connection.host or "", str(connection.port or 5432), "*", connection.login or "lakeward"]
    return ":".join([*(escape(item) if item != "*" else item for item in fields), escape(connection.password or "")])


def _has_password(file: Path | None, connection: AirflowConnection) -> bool:
    if file is None or not file.exists():
        return False
    password = _pgpass_line(connection).split(":")[-1]
    return any(line.endswith(f":{password}") for line in file.read_text().splitlines())


def _pgpass(file: Path | None, connection: AirflowConnection) -> str:
    existing = file.read_text() if file is not None and file.exists() else ""
    return f"{_pgpass_line(connection)}\n{existing}"


def _holds(file: Path | None, text: str) -> bool:
    if file is None or not file.exists():
        return False
    content = file.read_text().strip()
    return content == text or content.replace("postgresql+psycopg2://", "postgresql://") == text.replace(
        "postgresql+psycopg2://", "postgresql://"
    )


def _private(place: Home, name: str, content: str) -> Path:
    """Write a 0600 file named by the digest of its content: equal content is the same file, a new secret another."""
    folder = place.secrets / "airflow"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{name}.{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if not file.exists():
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(content)
        fresh.replace(file)
    return file
