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

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeward.platform.errors import SpecError, Unhealthy

CATALOG = "lake"  # the catalog's name in Spark and in PyIceberg: rows of a JDBC catalog are keyed by it
SUPERVISION_POOL = "LAKEWARD_SUPERVISION_POOL"
"""Environment variable with the Airflow pool of `streams_reconcile`; without it the pass waits among other tasks."""
_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://\S+")


def resolved(path: Path) -> Path:
    """The absolute path without links; where links lead in a circle it stays as it is: whoever opens it says so."""
    return Path(os.path.realpath(path))


def absent(path: Path) -> bool:
    """Whether nothing stands there, not even a link. Where one may not look: no, for whoever reads it says so."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Project:
    """What a user writes: `conf/`, `expectations/` and `python/` under one folder."""

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
        """The tables with a suite, by the names of its files."""
        return {file.stem for file in self.expectations.glob("*.yaml")} if self.expectations.is_dir() else set()

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @classmethod
    def locate(cls, given: Path | None = None) -> Project:
        """The project of this call: `--project`, `LAKEWARD_PROJECT`, or the current folder."""
        return cls(resolved(Path(given or os.environ.get("LAKEWARD_PROJECT") or ".")))


@dataclass(frozen=True)
class Home:
    """The state of one embedded stack. Everything Lakeward writes on this machine stands below `root`."""

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
        """The home of this call: `--home`, `LAKEWARD_HOME`, or `.lakeward` in the project."""
        chosen = given or os.environ.get("LAKEWARD_HOME")
        root = Path(chosen) if chosen else (project.root if project else Path()) / ".lakeward"
        return cls(resolved(root))


class ObjectStore(BaseModel):
    """The object store that a warehouse, or checkpoints, stand on.

    Attributes:
        connection: id of the AWS connection; None: the machine's own identity (instance role, `~/.aws`).
        connections: folder with the connections, as of `Runtime`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str | None = None
    connections: Path | None = None


class Lake(BaseModel):
    """How to reach the Iceberg catalog `lake`; the same for Spark and for PyIceberg.

    Attributes:
        host, port, database, user: the PostgreSQL that holds the JdbcCatalog (password from `PGPASSFILE`).
        warehouse: absolute URI or path under which tables are created.
        properties: further catalog properties, e.g. those of a REST catalog; they win over the derived ones.
        store: where an object store is reached; None where everything stands on this machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = 5432
    database: str = "catalog"
    user: str = "lakeward"
    warehouse: str
    properties: dict[str, str] = {}
    store: ObjectStore | None = None


class Database(BaseModel):
    """How to reach a PostgreSQL database that streams land in; the password stands in a password file.

    Attributes:
        host, port, database, user: where, and as whom.
        sslmode, sslrootcert, sslcert, sslkey: libpq's own words for TLS; None leaves libpq's defaults.
        passfile: password file of this connection; None: the deployment's.
        wrong: why it cannot be used; empty when it can. Only the streams that name it are stopped by that.
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
        """The connection in a file; whatever is wrong with it is said by whoever uses it."""
        try:
            return cls.model_validate_json(file.read_text())
        except ValidationError as error:
            words = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors())
            return cls(host="", database="", user="", wrong=f"{file}: {words}")
        except (OSError, ValueError) as error:
            return cls(host="", database="", user="", wrong=f"{file}: {error}")


class Runtime(BaseModel):
    """The addresses of one deployment, written by `lakeward stack up` or by whoever runs Lakeward elsewhere.

    Attributes:
        registry_url_file: 0600 file with the SQLAlchemy URL of the registry.
        pgpass: 0600 PostgreSQL password file, exported as `PGPASSFILE` to every process; None if not needed.
        lake: the Iceberg catalog.
        kafka: connection id -> bootstrap servers, of clusters that need nothing else.
        connections: folder with further Kafka connections, their secrets among them; None: there are no others.
        postgres: connection id -> database.
        connect: Spark Connect `host:port`; None when there is none. The token stands in `connect_token_file`.
        checkpoints: absolute path or URI below which each stream has its checkpoint.
        drivers: folder with one subfolder a driver: logs, launch file.
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
        """Where packages of streams are installed, a folder a digest; made anew when it is gone."""
        return self.drivers.parent / "environments"

    @property
    def data_docs(self) -> Path:
        """Where `lakeward quality docs` writes, unless it is told a place."""
        return self.drivers.parent / "data-docs"

    def checkpoint_of(self, recorded: str) -> str:
        """Where a generation's checkpoint stands: below `checkpoints`, unless it was recorded with a whole path."""
        whole = recorded.startswith("/") or "://" in recorded
        return recorded if whole else f"{self.checkpoints.rstrip('/')}/{recorded}"

    @classmethod
    def load(cls, file: Path) -> Runtime:
        """Read a runtime file.

        Raises:
            Unhealthy: there is no such file (the stack was never started here), or it cannot be understood.
        """
        try:
            found = cls.model_validate_json(file.read_text())
            secrets = file.parent / "secrets"
            added: dict[str, object] = {"postgres": {**found.postgres, **databases(secrets)}}
            if found.connections is None:  # a version before connections wrote the file
                added["connections"] = secrets
            return found.model_copy(update=added)
        except OSError as error:
            raise Unhealthy(
                "No Lakeward stack was found",
                why=f"{file}: {error.strerror}",
                next="lakeward stack up   (or name another home: --home DIR)",
                code="LW-9007",
            ) from None
        except ValueError:
            raise Unhealthy(
                "The stack's addresses cannot be read",
                why=f"{file} is damaged, or from another version of Lakeward",
                next="lakeward stack up   writes it again",
                code="LW-9008",
            ) from None


def databases(secrets: Path) -> dict[str, Database]:
    """The PostgreSQL connections in files of the home: `postgres/<id>.json`, and above them those of Airflow.

    Args:
        secrets: the home's.
    """
    folder = secrets / "postgres"
    return {file.stem: Database.read(file) for pattern in ("*.json", "airflow/*.json") for file in folder.glob(pattern)}


def registry_url(home: Home) -> str:
    """The registry's SQLAlchemy URL: from `LAKEWARD_REGISTRY_URL_FILE`, else from the home's secrets.

    Raises:
        Unhealthy: the file is missing.
        SpecError: what stands in it is no URL of a PostgreSQL.
    """
    file = Path(os.environ.get("LAKEWARD_REGISTRY_URL_FILE") or home.registry_url_file)
    try:
        url = file.read_text().strip()
    except OSError as error:
        raise Unhealthy(
            "The registry's address is not known",
            why=f"{file}: {error.strerror}",
            next="lakeward stack up   (or point LAKEWARD_REGISTRY_URL_FILE at a file with the URL)",
            code="LW-9006",
        ) from None
    except ValueError:
        url = ""
    if not _POSTGRES.fullmatch(url):
        # What stands there may hold a password: it is not repeated.
        raise SpecError(
            "The registry's address is not known",
            why=f"{file} does not contain exactly one URL of the form postgresql://USER@HOST:PORT/DATABASE",
            next="lakeward stack up   (or correct the file)",
            code="LW-9005",
        )
    return url


class Launch(BaseModel):
    """What a launched driver is told, in a 0600 file only it reads: who it is, its token, and the addresses.

    Attributes:
        driver: the driver's name; its streams are those the registry assigns to it.
        token: random per launch; claims the leases and proves the driver against newer launches.
        folder: the driver's own folder: rotated logs, `exit.json`.
        runtime: where the rest is.
        conf: Spark conf of this driver (resources), without secrets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: str
    token: str
    folder: Path
    runtime: Runtime
    conf: dict[str, str] = {}

    def write(self, file: Path) -> None:
        """Write the file so that only its owner can read it."""
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(self.model_dump_json(indent=2))

    @classmethod
    def read(cls, file: Path) -> Launch:
        """Read what `write` wrote."""
        return cls.model_validate_json(file.read_text())
