"""Connection files: Airflow connections as private files of the home, because drivers have no access to Airflow.

Each task writes the connections that the catalog and streams name, by one adapter for each type of connection. The user
of a file validates it: a wrong connection stops only the streams that name it. The file of a connection that Airflow
does not return is kept, because an unavailable secrets backend looks like a removed connection; it is deleted when
nothing names it any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.aws import account
from lakeward.connectors.cluster import connection as clusters
from lakeward.connectors.cluster import kubernetes as kubernetes_fields
from lakeward.connectors.cluster import spark as spark_fields
from lakeward.connectors.iceberg.catalogs import login
from lakeward.connectors.kafka import cluster, spark_options
from lakeward.connectors.kafka.settings import BOOTSTRAP, PASSWORD, USERNAME
from lakeward.connectors.python import connections as python_connections
from lakeward.platform import private
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.registry import generations, launches
from lakeward.supervision.reconcile import registry_of

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlConnection

KAFKA = "lakeward_kafka"
UNNAMED_S = 3600.0
"""How long the file of a connection that no stream names is kept."""


class AirflowConnection(Protocol):
    """The fields of an Airflow connection that are read here."""

    conn_type: str | None
    host: str | None
    port: int | None
    login: str | None
    password: str | None
    schema: str | None

    @property
    def extra_dejson(self) -> Mapping[str, object]: ...


Get = Callable[[str], AirflowConnection | None]
"""Returns the Airflow connection of an id; None without one."""


@dataclass(frozen=True)
class Adapter:
    """How connections of one type are stored in the home.

    Attributes:
        folder: their folder; None if this deployment has none.
        ids: the ids that streams name, from the registry.
        known: the ids with a file already, for a registry outage.
        write: (runtime, file, connection) -> files in writing order, with their text; None: no such file.
        suffix: of the file that is named after the connection.
        companions: the files that belong to that file and are deleted with it.
        always: ids that the deployment itself names.
    """

    folder: Callable[[Runtime, Home], Path | None]
    ids: Callable[[SqlConnection], set[str]]
    known: Callable[[Runtime], Iterable[str]]
    write: Callable[[Runtime, Path, AirflowConnection], Sequence[tuple[Path, str | None]]]
    suffix: str = ".json"
    companions: Callable[[Path], Sequence[Path]] = lambda file: ()
    always: Callable[[Runtime], Collection[str]] = lambda runtime: ()

    def named(self, runtime: Runtime) -> set[str]:
        """The ids that the deployment and its streams name; the ids with a file already if the registry is down."""
        own = set(self.always(runtime))
        try:
            with registry_of(runtime)() as connection:
                return own | self.ids(connection)
        except DependencyDown:
            return own | set(self.known(runtime))

    def keep(self, runtime: Runtime, home: Home, ids: Collection[str], get: Get) -> None:
        """Bring the files up to date with Airflow."""
        folder = self.folder(runtime, home)
        if folder is None:
            return
        for name in sorted(ids):
            if (connection := get(name)) is not None:
                for file, text in self.write(runtime, folder / f"{name}{self.suffix}", connection):
                    if text is None:
                        file.unlink(missing_ok=True)
                    else:
                        private.update(file, text)
        for file in folder.glob(f"[!.]*{self.suffix}"):
            # A new file may belong to a stream that was deployed after the ids were read.
            if file.stem not in ids and time.time() - file.stat().st_mtime > UNNAMED_S:
                for path in (file, *self.companions(file)):
                    path.unlink(missing_ok=True)


def escape(text: str) -> str:
    """Escape a field of a line of a password file."""
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _given(**fields: object) -> dict[str, object]:
    """The fields of a connection that are not empty."""
    return {name: value for name, value in fields.items() if value}


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, sort_keys=True)


def _kafka(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """Properties of librdkafka: the extra, and the connection's own fields for missing ones."""
    content = {
        **({BOOTSTRAP: f"{connection.host}:{connection.port or 9092}"} if connection.host else {}),
        **_given(**{USERNAME: connection.login, PASSWORD: connection.password, "schema": connection.schema}),
        **connection.extra_dejson,
    }
    if content == {BOOTSTRAP: runtime.kafka.get(file.stem)}:  # the stack's own broker needs no file
        return [(path, None) for path in (file, *_kafka_login(file))]
    return [(file, _json(content))]


def _kafka_login(file: Path) -> tuple[Path, ...]:
    """The login that Spark reads."""
    return (spark_options.file_of(file),)


_AWS_NAMES = {
    "region_name": account.REGION,
    "assume_role_with_web_identity_token_file": account.WEB_TOKEN,
    "ExternalId": account.EXTERNAL_ID,
    "RoleSessionName": account.ROLE_SESSION,
}
"""The names of Airflow's AWS connections -> AWS's."""
_AWS_METHODS = ("assume_role", "assume_role_with_web_identity")


def _aws(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """An AWS profile file: the extra, in AWS's names, and the connection's own fields for missing ones. Unknown names
    are kept, and `account` refuses them."""
    extra = dict(connection.extra_dejson)
    if isinstance(arguments := extra.get("assume_role_kwargs"), Mapping):
        extra = {name: value for name, value in extra.items() if name != "assume_role_kwargs"} | dict(arguments)
    if extra.get("assume_role_method") in _AWS_METHODS:  # the other names say which one
        del extra["assume_role_method"]
    profile = _given(**{account.KEY: connection.login, account.SECRET: connection.password}) | {
        _AWS_NAMES.get(name, name): value for name, value in extra.items()
    }
    return [(file, account.render({name: " ".join(str(value).split()) for name, value in profile.items()}))]


def _postgres(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """The address with the field names of `Database`, and the password in a libpq password file beside it. Unknown
    fields are kept, and `Database` refuses them."""
    [passwords] = _postgres_password(file)
    own = _given(host=connection.host, port=connection.port, database=connection.schema, user=connection.login)
    if not connection.password:
        return [(file, _json(own | dict(connection.extra_dejson))), (passwords, None)]
    address = own | {"passfile": str(passwords)} | dict(connection.extra_dejson)
    return [(passwords, f"*:*:*:*:{escape(connection.password)}\n"), (file, _json(address))]


def _postgres_password(file: Path) -> tuple[Path, ...]:
    return (file.with_suffix(".pgpass"),)


def _iceberg(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """A login in Iceberg's names: the extra, else client id and secret, or a token without a client id.

    The fields are those of Airflow's Iceberg provider. The host is not used: the address is `uri:` of the settings. An
    empty value in the extra is none. Unknown names are kept, and `login.read` refuses them.
    """
    extra = _given(**connection.extra_dejson)
    if not {login.TOKEN, login.CREDENTIAL, login.USER} & set(extra) and connection.password:
        key, secret = login.TOKEN, connection.password
        if connection.login:
            key, secret = login.CREDENTIAL, f"{connection.login}:{connection.password}"
        extra = {key: secret, **extra}
    return [(file, _json(extra))]


def _python(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """All fields, with Airflow's names."""
    fields = ("host", "port", "login", "password", "schema")
    content = _given(**{name: getattr(connection, name) for name in fields}) | {"extra": dict(connection.extra_dejson)}
    return [(file, _json(content))]


def _spark(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """Type, host and port, and the fields of the extra that name a cluster: no keytab, no password."""
    extra = {name: connection.extra_dejson[name] for name in spark_fields.FIELDS if name in connection.extra_dejson}
    return [(file, _cluster(connection, extra))]


def _kubernetes(runtime: Runtime, file: Path, connection: AirflowConnection) -> list[tuple[Path, str | None]]:
    """The type, and the fields of the extra that lead to the API; a kubeconfig in it has a login."""
    return [(file, _cluster(connection, kubernetes_fields.fields(connection.extra_dejson)))]


def _cluster(connection: AirflowConnection, extra: Mapping[str, object]) -> str:
    return _json(_given(conn_type=connection.conn_type, host=connection.host, port=connection.port) | {"extra": extra})


def _of_drivers(*backends: str) -> Collection[str]:
    """The connections that `drivers:` of the project's settings name."""
    file = Project.locate().settings_file
    if not file.is_file() or "connection:" not in file.read_text(encoding="utf-8", errors="replace"):
        return []  # most projects: the models of settings are not imported
    from lakeward.spec.read.settings_file import usable_settings

    drivers = usable_settings(Project.locate()).drivers.values()
    return [str(each.connection) for each in drivers if each.connection is not None and each.backend in backends]


def _of_catalog(runtime: Runtime) -> Collection[str]:
    stores = [each.store for each in (runtime.lake, *runtime.lake.others)]
    return [store.connection for store in stores if store is not None and store.connection is not None]


def _login(runtime: Runtime) -> Collection[str]:
    return [each.login.connection for each in (runtime.lake, *runtime.lake.others) if each.login is not None]


ADAPTERS: Mapping[str, Adapter] = {
    "aws": Adapter(
        folder=lambda runtime, home: next(iter(account.places(runtime.connections)), None),
        ids=generations.aws_connections,
        known=lambda runtime: account.names(runtime.connections),
        write=_aws,
        suffix=".ini",
        always=_of_catalog,
    ),
    "iceberg": Adapter(
        folder=lambda runtime, home: next(iter(login.places_of(runtime.connections)), None),
        ids=lambda registry: set(),  # the deployment alone names one
        known=lambda runtime: (),
        write=_iceberg,
        always=_login,
    ),
    "kafka": Adapter(
        folder=lambda runtime, home: cluster.from_airflow(runtime),
        ids=lambda registry: {KAFKA, *generations.kafka_connections(registry)},
        known=cluster.names,
        write=_kafka,
        companions=_kafka_login,
    ),
    "kubernetes": Adapter(
        folder=lambda runtime, home: next(iter(clusters.folders("kubernetes", runtime.connections)), None),
        ids=launches.pod_connections,  # of drivers that run, also when their entry names another one now
        known=lambda runtime: clusters.ids("kubernetes", runtime.connections),
        write=_kubernetes,
        always=lambda runtime: _of_drivers("kubernetes"),
    ),
    "python": Adapter(
        folder=lambda runtime, home: python_connections.from_airflow(runtime),
        ids=generations.sink_connections,
        known=python_connections.names,
        write=_python,
    ),
    "postgres": Adapter(
        folder=lambda runtime, home: home.secrets / "postgres" / "airflow",
        ids=generations.postgres_connections,
        known=lambda runtime: runtime.postgres,
        write=_postgres,
        companions=_postgres_password,
    ),
    "spark": Adapter(
        folder=lambda runtime, home: next(iter(clusters.folders("spark", runtime.connections)), None),
        ids=lambda registry: set(),  # a driver that runs has its place in the registry
        known=lambda runtime: (),
        write=_spark,
        always=lambda runtime: _of_drivers("standalone", "yarn"),
    ),
}
"""Type of connection -> its adapter."""
