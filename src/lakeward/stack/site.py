"""Context of one stack: its folders, ports, secrets and addresses, and the environment of its programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lakeward.jars import Java, spark_folder
from lakeward.platform import ports
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import CatalogLogin, Database, Home, Lake, ObjectStore, Project, Runtime
from lakeward.spec.model.settings import LakeCatalog, Settings
from lakeward.spec.read.loader import load_settings
from lakeward.stack import private
from lakeward.stack.external import ExternalServices
from lakeward.stack.postgres import pgpass
from lakeward.supervision.backends.local import WRAPPER

REGISTRY_ROLE = "lakeward"
CATALOG_ROLE = "catalog"
# The catalog's role owns the catalog only: a user with the Spark Connect token can read the password of this role.
SERVED = "served"
"""The database that streams land in by the connection `lakeward_postgres`."""
DATABASES = {"airflow": REGISTRY_ROLE, "lakeward": REGISTRY_ROLE, "catalog": CATALOG_ROLE, SERVED: REGISTRY_ROLE}
_PASSED_ON = (
    "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "LAKEWARD_JARS",
    "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "JAVA_TOOL_OPTIONS", WRAPPER,
)  # fmt: skip
_LOCAL = "localhost,127.0.0.1"
_LOOPBACK = ports.HOST


@dataclass(frozen=True)
class StackContext:
    """The settings that parts need of each other; pure values.

    Attributes:
        ports: see `StackState.ports`; without `connect` no Spark Connect server was ever started here.
        java: the Java that runs Spark and Kafka.
        hosts: part -> host at which other parts reach it; parts without an entry are on loopback.
        listen: the address at which Airflow's API server listens.
        external: the services that run elsewhere, in place of those of the stack; None in a whole stack.
    """

    project: Project
    home: Home
    ports: dict[str, int]
    java: Java
    hosts: Mapping[str, str] = field(default_factory=dict)
    listen: str = _LOOPBACK
    external: ExternalServices | None = None

    def host(self, part: str) -> str:
        """The host at which other parts reach this one."""
        return self.hosts.get(part, ports.HOST)

    @property
    def airflow_home(self) -> Path:
        return self.home.root / "airflow"

    @property
    def catalog_pgpass(self) -> Path:
        return self.home.secrets / "catalog.pgpass"

    @property
    def connect_token(self) -> Path:
        return self.home.secrets / "connect.token"

    @property
    def kafka(self) -> str:
        return f"{self.host('kafka')}:{self.ports['kafka']}"

    @property
    def connect(self) -> str:
        # With a token and without TLS the client accepts only the host name `localhost`; 127.0.0.1 hangs.
        return f"localhost:{self.ports['connect']}"

    @property
    def airflow(self) -> str:
        return f"http://{ports.HOST}:{self.ports['airflow']}"

    @property
    def registry(self) -> str:
        """The registry's SQLAlchemy URL, without a password."""
        if self.external is not None:
            return self.external.url
        return f"postgresql+psycopg2://{REGISTRY_ROLE}@{self.host('postgres')}:{self.ports['postgres']}/lakeward"

    def secret(self, name: str) -> str:
        """A secret of this home, generated at the first call."""
        return private.keep(private.folder(self.home.secrets) / name)

    @cached_property
    def settings(self) -> Settings:
        """The settings of the project.

        Raises:
            SpecError: the file is invalid. Default values would create tables at another location.
        """
        return load_settings(self.project)

    def runtime(self) -> Runtime:
        """The addresses for all other processes.

        Raises:
            SpecError: the settings are invalid, or name no catalog where the stack has no PostgreSQL of its own.
        """
        whole = self.external is None
        if not whole and self.settings.lake is None:
            raise SpecError(
                "The lake has no catalog",
                why=f"{self.project.settings_file} names none; the embedded one needs the PostgreSQL of a whole stack",
                next="name your catalog under `catalogs:` (docs/how-to/use-a-rest-catalog.md)",
                code="LW-7035",
            )
        checkpoints = self.settings.checkpoints
        postgres = self.host("postgres")
        own = {
            "lakeward_postgres": Database(
                host=postgres, port=self.ports["postgres"], database=SERVED, user=REGISTRY_ROLE
            )
        }
        return Runtime(
            registry_url_file=self.home.registry_url_file,
            pgpass=self.home.pgpass,
            lake=lake_of(self.settings, self.home, self.ports["postgres"], postgres),
            kafka={"lakeward_kafka": self.kafka} if whole else {},
            connections=self.home.secrets,
            postgres=own if whole else {},
            connect=self.connect if "connect" in self.ports else None,
            connect_token_file=self.connect_token,
            checkpoints=checkpoints.hadoop if checkpoints else str(self.home.checkpoints),
            drivers=self.home.drivers,
            jars=spark_folder(),
        )

    def write(self) -> None:
        """Write the folders, the password files and `runtime.json`."""
        for path in (self.home.logs, self.home.drivers, self.home.warehouse, self.home.checkpoints):
            path.mkdir(parents=True, exist_ok=True)
        secrets = private.folder(self.home.secrets)
        if self.external is None:
            self._write_logins()
        private.write(secrets / self.home.registry_url_file.name, self.registry + "\n")
        self.secret(self.connect_token.name)
        private.write(self.home.runtime_file, self.runtime().model_dump_json(indent=2) + "\n")

    def _write_logins(self) -> None:
        """Write the password files of the stack's own PostgreSQL."""
        host, port = self.host("postgres"), self.ports["postgres"]
        roles = {role: self.secret(f"{role}.password") for role in (REGISTRY_ROLE, CATALOG_ROLE)}
        private.write(self.home.pgpass, pgpass(port, roles, host))
        self.write_catalog_login()

    def write_catalog_login(self) -> None:
        """Write the password file of the catalog's role, the only one that the Spark Connect server has."""
        login = {CATALOG_ROLE: self.secret(f"{CATALOG_ROLE}.password")}
        private.write(self.catalog_pgpass, pgpass(self.ports["postgres"], login, self.host("postgres")))

    def environment(self, **more: str) -> dict[str, str]:
        """The complete environment of a part; only listed variables of the caller's shell are passed on."""
        own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        programs = str(Path(sys.executable).parent)
        own |= {
            "PATH": os.pathsep.join([programs, str(self.java.home / "bin"), os.environ.get("PATH", os.defpath)]),
            "JAVA_HOME": str(self.java.home),
            "NO_PROXY": _with_local("NO_PROXY"),
            "no_proxy": _with_local("no_proxy"),
            "LAKEWARD_HOME": str(self.home.root),
            "LAKEWARD_PROJECT": str(self.project.root),
            "PGPASSFILE": str(self.home.pgpass),
            "PYTHONUNBUFFERED": "1",
        }
        return own | more


def lake_of(settings: Settings, home: Home, port: int, host: str = ports.HOST) -> Lake:
    """The catalog of the settings: the embedded one, or another.

    Args:
        port, host: of the stack's PostgreSQL.
    """
    embedded, other = settings.catalog, settings.lake
    connection = embedded.connection if other is None else other.keys
    login = None if other is None else other.login
    apart = connection or embedded.warehouse or settings.checkpoints or (other is not None and other.aws)
    return Lake(
        name=settings.lake_name,
        host=host,
        port=port,
        database="catalog",
        user=CATALOG_ROLE,
        warehouse=embedded.warehouse.iceberg if embedded.warehouse else str(home.warehouse),
        properties={} if other is None else other.iceberg(),
        login=CatalogLogin(connection=login, connections=home.secrets) if login is not None else None,
        store=ObjectStore(connection=connection, connections=home.secrets) if apart else None,
        others=tuple(_other(name, each, home) for name, each in settings.others.items()),
    )


def _other(name: str, catalog: LakeCatalog, home: Home) -> Lake:
    """A catalog other than the default one. Its warehouse is its server's, or in its properties."""
    login, keys = catalog.login, catalog.keys
    return Lake(
        name=name,
        warehouse=catalog.warehouse or "",
        properties=catalog.iceberg(),
        login=CatalogLogin(connection=login, connections=home.secrets) if login is not None else None,
        store=ObjectStore(connection=keys, connections=home.secrets) if keys is not None or catalog.aws else None,
    )


def _with_local(name: str) -> str:
    given = os.environ.get(name, "")
    return f"{given},{_LOCAL}" if given else _LOCAL
