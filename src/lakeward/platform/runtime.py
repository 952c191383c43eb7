"""Runtime: the project folder, the home folder, and the addresses a process needs.

`Project` and `Home` are only paths. `Runtime` is what a Lakeward process needs to reach the rest of the stack; it
has addresses, never a password: passwords are in a PostgreSQL password file (`PGPASSFILE`, read by libpq and by
the JDBC driver alike), so that no secret reaches a command line, a Spark conf or a log.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakeward.platform.errors import SpecError, Unhealthy

CATALOG = "lake"  # the name of the lake's catalog unless settings say another; rows of the embedded one are keyed by it
SUPERVISION_POOL = "LAKEWARD_SUPERVISION_POOL"
"""Environment variable with the Airflow pool of `streams_reconcile`; without it the pass queues with other tasks."""
TASK_QUEUE = "LAKEWARD_QUEUE"
"""Environment variable with the queue of all Lakeward's tasks, where Airflow's workers are on several hosts."""
GLUE_ENDPOINT, AWS_REGION = "glue.endpoint", "client.region"
"""Catalog properties of Iceberg: the address of Glue if it is not AWS's, and the region of AWS's clients."""
_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://\S+")


def resolved(path: Path) -> Path:
    """The absolute path without symbolic links. A path with circular links is returned as it is; opening it raises."""
    return Path(os.path.realpath(path))


def absent(path: Path) -> bool:
    """Whether nothing exists at this path, not even a link. False without permission: reading it raises."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Project:
    """The project folder of a user: `conf/`, `expectations/` and `python/`."""

    root: Path

    @property
    def streams(self) -> Path:
        return self.root / "conf" / "streams"

    @property
    def python(self) -> Path:
        return self.root / "python"

    @property
    def tables_file(self) -> Path:
        return self.root / "conf" / "tables.yaml"

    @property
    def settings_file(self) -> Path:
        return self.root / "conf" / "lakeward.yaml"

    @property
    def expectations(self) -> Path:
        return self.root / "expectations"

    @property
    def suites(self) -> set[str]:
        """The tables with a suite, by the names of the files."""
        return {file.stem for file in self.expectations.glob("*.yaml")} if self.expectations.is_dir() else set()

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @classmethod
    def locate(cls, given: Path | None = None) -> Project:
        """The project of this command: `--project`, `LAKEWARD_PROJECT`, or the current folder."""
        return cls(resolved(Path(given or os.environ.get("LAKEWARD_PROJECT") or ".")))


@dataclass(frozen=True)
class Home:
    """The home folder of one embedded stack. Everything Lakeward writes on this machine is below `root`."""

    root: Path

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def runtime_file(self) -> Path:
        return self.root / "runtime.json"

    @property
    def pgpass(self) -> Path:
        return self.secrets / "pgpass"

    @property
    def registry_url_file(self) -> Path:
        return self.secrets / "registry.url"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def drivers(self) -> Path:
        return self.root / "drivers"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @classmethod
    def locate(cls, given: Path | None = None, project: Project | None = None) -> Home:
        """The home of this command: `--home`, `LAKEWARD_HOME`, or `.lakeward` in the project."""
        chosen = given or os.environ.get("LAKEWARD_HOME")
        root = Path(chosen) if chosen else (project.root if project else Path()) / ".lakeward"
        return cls(resolved(root))


class ObjectStore(BaseModel):
    """The object store of a warehouse or of checkpoints.

    Attributes:
        connection: id of the AWS connection; None: the identity of the machine (instance role, `~/.aws`).
        connections: folder with the connections, as in `Runtime`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str | None = None
    connections: Path | None = None


class CatalogLogin(BaseModel):
    """The login of a REST catalog.

    Attributes:
        connection: id of the connection.
        connections: folder with the connections, as in `Runtime`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str
    connections: Path


class Lake(BaseModel):
    """How to reach the Iceberg catalog of the lake; the same for Spark and for PyIceberg.

    Attributes:
        name: its name in Spark, PyIceberg and SQL. The default is not written: earlier versions do not know the key.
        host, port, database, user: the PostgreSQL of the JdbcCatalog (password from `PGPASSFILE`).
        warehouse: absolute URI or path under which tables are created; in a REST catalog: Delta tables only.
        properties: further catalog properties; they override the derived ones. `type: rest` with `uri` and, if the
            server has several, `warehouse`: a REST catalog.
        login: the login of a REST catalog; None without one, and where requests are signed for AWS.
        store: the object store; None if everything is on local disk, or the catalog vends credentials.
        others: further catalogs, which SQL reads and writes by their names. No stream and no maintenance uses them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(CATALOG, exclude_if=lambda name: name == CATALOG)
    host: str = "127.0.0.1"
    port: int = 5432
    database: str = "catalog"
    user: str = "lakeward"
    warehouse: str
    properties: dict[str, str] = {}
    login: CatalogLogin | None = None
    store: ObjectStore | None = None
    others: tuple[Lake, ...] = Field((), exclude_if=lambda others: not others)

    @property
    def catalog(self) -> str:
        """Name of the catalog's server: the database of PostgreSQL, or host and port of another catalog."""
        if self.glue and GLUE_ENDPOINT not in self.properties:
            return f"AWS Glue in {self.properties.get(AWS_REGION, 'the default region')}"
        address = self.properties.get(GLUE_ENDPOINT if self.glue else "uri", "")
        return urlsplit(address).netloc.rpartition("@")[2] or self.database

    @property
    def rest(self) -> bool:
        """Whether it is a REST catalog, whose server chooses where tables are."""
        return self.properties.get("type") == "rest"

    @property
    def hive(self) -> bool:
        """Whether it is a Hive Metastore."""
        return self.properties.get("type") == "hive"

    @property
    def glue(self) -> bool:
        """Whether it is AWS Glue's catalog."""
        return self.properties.get("type") == "glue"

    @property
    def signed(self) -> bool:
        """Whether it is a REST catalog whose requests are signed with the keys of `store` (SigV4)."""
        return self.rest and self.properties.get("rest.sigv4-enabled") == "true"

    @property
    def external(self) -> bool:
        """Whether the catalog is not the stack's own, so that its tables and its bucket may be anybody's."""
        return self.rest or self.hive or self.glue


class Database(BaseModel):
    """How to reach a PostgreSQL database as a sink or reference; the password is in a password file.

    Attributes:
        host, port, database, user: the address and the login.
        sslmode, sslrootcert, sslcert, sslkey: libpq's TLS parameters; None: libpq's defaults.
        passfile: password file of this connection; None: that of the deployment.
        wrong: why the connection cannot be used; empty if it can. Only streams that name it are affected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    port: int = 5432
    database: str
    user: str
    sslmode: str | None = None
    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None
    passfile: Path | None = None
    wrong: str = ""

    @classmethod
    def read(cls, file: Path) -> Database:
        """Read a connection file. An error is stored in `wrong` and reported when the connection is used."""
        try:
            return cls.model_validate_json(file.read_text())
        except ValidationError as error:
            words = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'it'}: {item['msg']}" for item in error.errors())
            return cls(host="", database="", user="", wrong=f"{file}: {words}")
        except (OSError, ValueError) as error:
            return cls(host="", database="", user="", wrong=f"{file}: {error}")


class Runtime(BaseModel):
    """The addresses of one deployment, written by `lakeward stack up`, or by the operator of another deployment.

    Attributes:
        registry_url_file: 0600 file with the SQLAlchemy URL of the registry.
        pgpass: 0600 PostgreSQL password file, exported as `PGPASSFILE` to every process; None if not needed.
        lake: the Iceberg catalog.
        kafka: connection id -> bootstrap servers, for clusters without further settings.
        connections: folder with further Kafka connections and their secrets; None: there are none.
        postgres: connection id -> database.
        connect: Spark Connect `host:port`; None without one. The token is in `connect_token_file`.
        checkpoints: absolute path or URI below which each stream has its checkpoint.
        drivers: folder with a subfolder for each driver: logs, launch file.
        jars: folder with the verified jars.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    registry_url_file: Path
    pgpass: Path | None = None
    lake: Lake
    kafka: dict[str, str] = {}
    connections: Path | None = None
    postgres: dict[str, Database] = {}
    connect: str | None = None
    connect_token_file: Path | None = None
    checkpoints: str
    drivers: Path
    jars: Path

    @property
    def environments(self) -> Path:
        """The folder of installed stream packages, a subfolder for each digest; recreated if it was removed."""
        return self.drivers.parent / "environments"

    @property
    def data_docs(self) -> Path:
        """The default output folder of `lakeward quality docs`."""
        return self.drivers.parent / "data-docs"

    def checkpoint_of(self, recorded: str) -> str:
        """The path of a generation's checkpoint: below `checkpoints`, unless an absolute path was recorded."""
        absolute = recorded.startswith("/") or "://" in recorded
        return recorded if absolute else f"{self.checkpoints.rstrip('/')}/{recorded}"

    @classmethod
    def load(cls, file: Path) -> Runtime:
        """Read a runtime file.

        Raises:
            Unhealthy: the file does not exist (the stack was never started here), or it is invalid.
        """
        try:
            runtime = cls.model_validate_json(file.read_text())
            secrets = file.parent / "secrets"
            added: dict[str, object] = {"postgres": {**runtime.postgres, **databases(secrets)}}
            if runtime.connections is None:  # written by a version without connections
                added["connections"] = secrets
            return runtime.model_copy(update=added)
        except OSError as error:
            raise Unhealthy(
                "No Lakeward stack was found",
                why=f"{file}: {error.strerror}",
                next="lakeward stack up   (or name another home: --home DIR)",
                code="LW-9007",
            ) from None
        except ValueError:
            raise Unhealthy(
                "Cannot read the addresses of the stack",
                why=f"{file} is damaged, or of another version of Lakeward",
                next="lakeward stack up   writes the file again",
                code="LW-9008",
            ) from None


def databases(secrets: Path) -> dict[str, Database]:
    """The PostgreSQL connections in files of the home: `postgres/<id>.json`; those of Airflow take precedence.

    Args:
        secrets: the secrets folder of the home.
    """
    folder = secrets / "postgres"
    return {file.stem: Database.read(file) for pattern in ("*.json", "airflow/*.json") for file in folder.glob(pattern)}


def registry_url(home: Home) -> str:
    """The registry's SQLAlchemy URL: from `LAKEWARD_REGISTRY_URL_FILE`, else from the home's secrets.

    Raises:
        Unhealthy: the file is missing.
        SpecError: its content is not a PostgreSQL URL.
    """
    file = Path(os.environ.get("LAKEWARD_REGISTRY_URL_FILE") or home.registry_url_file)
    try:
        url = file.read_text().strip()
    except OSError as error:
        raise Unhealthy(
            "The address of the registry is unknown",
            why=f"{file}: {error.strerror}",
            next="lakeward stack up   (or point LAKEWARD_REGISTRY_URL_FILE at a file with the URL)",
            code="LW-9006",
        ) from None
    except ValueError:
        url = ""
    if not _POSTGRES.fullmatch(url):
        # The content may contain a password: it is not repeated.
        raise SpecError(
            "The address of the registry is invalid",
            why=f"{file} does not contain exactly one URL of the form postgresql://USER@HOST:PORT/DATABASE",
            next="lakeward stack up   (or correct the file)",
            code="LW-9005",
        )
    return url


class ClusterPlace(BaseModel):
    """Where a driver in cluster mode is submitted.

    Attributes:
        master: the address of the standalone master, `spark://HOST:PORT`.
        rest, ui: its REST gateway and its page; None: the default ports of the master's hosts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str
    rest: str | None = None
    ui: str | None = None


class PodPlace(BaseModel):
    """The pod of a driver on Kubernetes.

    Attributes:
        connection: id of the connection to the cluster's API; None: the machine's own access.
        namespace, image, service_account: of the pod.
        registry_secret: the Secret with the registry's address (`registry.url`) and password file (`pgpass`).
        secrets: further Secrets, and where they are mounted.
        cores, memory_mib: what the pod requests: the JVM and Python beside it.
        deployment: a digest of the registry's address, by which its pods are listed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str | None = None
    namespace: str
    image: str
    service_account: str | None = None
    registry_secret: str
    secrets: dict[str, str] = {}
    cores: int
    memory_mib: int
    deployment: str = ""

    WORK: ClassVar[str] = "/var/lib/lakeward"
    REGISTRY: ClassVar[str] = "/etc/lakeward/registry"
    SECRETS: ClassVar[str] = "/etc/lakeward/secrets"
    """Paths in the pod: the driver's folder, the registry's Secret, the other ones."""


class YarnPlace(BaseModel):
    """Where a driver is submitted on YARN.

    Attributes:
        connection: not used any more; rows of an earlier version have it.
        queue: the queue of its application.
        hadoop_conf: folder with `yarn-site.xml` and `core-site.xml`, on the machine that submits.
        resource_managers: web addresses of the ResourceManagers, the active one and its standbys.
        deployment: a digest of the registry's address, by which its applications are listed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str | None = None
    queue: str | None = None
    hadoop_conf: str | None = None
    resource_managers: tuple[str, ...] = ()
    deployment: str = ""


class Launch(BaseModel):
    """The launch file of a driver (mode 0600): its name, its token, and the addresses.

    Attributes:
        driver: the driver's name; the registry assigns its streams.
        token: random for each launch; it claims the leases and fences older launches.
        folder: the folder of the driver: rotated logs, `exit.json`.
        runtime: the addresses of the deployment.
        conf: Spark conf of this driver (resources), without secrets.
        cluster: where it is submitted; None for a process of this machine, whose launch file does not have the key.
        pod: its pod; None for a driver that is not on Kubernetes.
        yarn: its place on YARN; None for a driver that is not there.
        id: of its row in the registry; empty without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: str
    token: str
    folder: Path
    runtime: Runtime
    conf: dict[str, str] = {}
    cluster: ClusterPlace | None = None
    pod: PodPlace | None = None
    yarn: YarnPlace | None = None
    id: str = ""

    def write(self, file: Path) -> None:
        """Write the file with mode 0600."""
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            # A driver of the version before refuses keys that it does not know: a process here needs none.
            stream.write(self.model_dump_json(indent=2, exclude={"cluster", "pod", "yarn", "id"}))

    @classmethod
    def read(cls, file: Path) -> Launch:
        """Read a launch file."""
        return cls.model_validate_json(file.read_text())
