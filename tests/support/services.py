"""One PostgreSQL and one Kafka for a whole run of the tests, also when several workers share it.

`Services` starts a server when it is first asked for. Without workers the process that runs the tests holds it. With
workers the controller holds it and answers them on a socket (`Host`, `request_service`), because a worker may end
before the others. The servers are bound to the process that starts them: when a run is killed, they end too.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from lakeward import jars
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform import ports
from lakeward.registry.engine import engine, migrate
from lakeward.stack import private, service_user
from lakeward.stack.kafka import Kafka, create_topic
from lakeward.stack.postgres import Postgres, environment, pgpass

MEMORY, IN_MEMORY, ROOM = Path("/dev/shm"), "lakeward-tests-", 6 << 30
ADMIN_PASSWORD, PASSWORD, USER = "admin-password", "test-password", "lakeward"


@contextmanager
def running(command: list[str], log: Path, stop: signal.Signals, env: dict[str, str] | None = None) -> Iterator[None]:
    """A server in the foreground of its own process group, ended whatever happens."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, env=env, cwd="/"
        )
    try:
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait(ready: Callable[[], None], log: Path) -> None:
    """Wait for a server; an error shows the end of its log."""
    try:
        ready()
    except Exception as error:
        error.add_note(log.read_text(errors="replace")[-3000:])
        raise


@contextmanager
def in_memory(folder: Path) -> Iterator[Path]:
    """Make a folder, in memory where there is room, with a link to it: a database is a thousand small files."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in MEMORY.glob(f"{IN_MEMORY}*"):  # of a run that was killed
        if not psutil.pid_exists(int(left.name.split("-")[-2])):
            shutil.rmtree(left, ignore_errors=True)
    room = min(psutil.virtual_memory().available, shutil.disk_usage(MEMORY).free) if MEMORY.is_dir() else 0
    if room < ROOM:
        folder.mkdir()
        yield folder
        return
    made = Path(tempfile.mkdtemp(prefix=f"{IN_MEMORY}{os.getpid()}-", dir=MEMORY))
    folder.symlink_to(made)
    try:
        yield made
    finally:
        shutil.rmtree(made)


class Services:
    """The servers of a run: each starts when it is first asked for.

    Args:
        folder: where their data is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = ExitStack()
        self._known: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """`postgres`: its port. `registry`: a database with a migrated registry, to copy. `kafka`: its address."""
        if name not in self._known:
            self._known[name] = getattr(self, f"_{name}")()
        return self._known[name]

    def close(self) -> None:
        """End every server."""
        self._held.close()

    def _postgres(self) -> int:
        folder = self._held.enter_context(in_memory(self._folder / "postgres"))
        settings = {
            # Every query of every worker's Spark session keeps a pool of connections to the catalog.
            "max_connections": "1500",
            # Its data are of no value after the run.
            "fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
            # Many databases live for a second, and their connections too.
            "autovacuum": "off", "scram_iterations": "1",
        }  # fmt: skip
        server = Postgres(folder / "pg", ports.any_free(), settings)
        log = folder / "log"
        server.initialise(ADMIN_PASSWORD)
        self._held.enter_context(running(server.command(bound=True), log, signal.SIGINT, environment()))
        wait(lambda: server.wait(ADMIN_PASSWORD), log)
        server.prepare(ADMIN_PASSWORD, {USER: PASSWORD}, {USER: USER})
        private.write(folder / "pgpass", pgpass(server.port, {USER: PASSWORD}))
        return server.port

    def _registry(self) -> str:
        server = PostgresService.of(self.get("postgres"), self._folder, "")
        name = server.create_database()
        migrate(server.url(name), server.pgpass)
        engine(server.url(name), server.pgpass).dispose()
        return name

    def _kafka(self) -> str:
        folder = _made(self._folder / "kafka")
        jars.ensure()
        java = jars.find_java()
        broker = Kafka(folder, ports.any_free(), ports.any_free())
        broker.initialise(java)
        log = folder / "log"
        bound = service_user.bound(broker.command(java))
        self._held.enter_context(running(bound, log, signal.SIGTERM, dict(os.environ)))
        wait(broker.wait, log)
        return broker.bootstrap


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


class Host:
    """Services for other processes. One thread starts, answers and ends them, so that none is started twice."""

    def __init__(self, folder: Path) -> None:
        self.key = secrets.token_bytes(16)
        self._listener = Listener(family="AF_UNIX", authkey=self.key)
        self._thread = threading.Thread(target=self._serve, args=(Services(folder),), name="services", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where to ask."""
        return str(self._listener.address)

    def close(self) -> None:
        """End every server, and the thread."""
        request_service(self.address, self.key, "")
        self._thread.join()
        self._listener.close()

    def _serve(self, services: Services) -> None:
        name = "?"
        while name:
            with suppress(OSError, EOFError), self._listener.accept() as link:  # a worker may be killed while it asks
                name = link.recv()
                try:
                    found = services.get(name) if name else services.close()
                except Exception:  # noqa: BLE001  # whoever asked shows it
                    link.send((None, traceback.format_exc()))
                else:
                    link.send((found, ""))


def request_service(address: str, key: bytes, name: str) -> Any:
    """What `Services.get` gives, from the process that holds them.

    Raises:
        RuntimeError: the server did not start.
    """
    with Client(address, authkey=key) as link:
        link.send(name)
        found, error = link.recv()
    if error:
        raise RuntimeError(f"{name or 'the end of the services'}: {error}")
    return found


@dataclass(frozen=True)
class PostgresService:
    """A running PostgreSQL.

    Attributes:
        host, port, user: where and as whom; the user owns every database made here.
        pgpass: 0600 password file: set `PGPASSFILE` to it, or pass it as `passfile`.
        registry: a database with a migrated registry that nobody is connected to.
    """

    host: str
    port: int
    user: str
    pgpass: Path
    password: str
    admin_password: str
    registry: str
    _server: Postgres

    @classmethod
    def of(cls, port: int, folder: Path, registry: str) -> PostgresService:
        """The one whose data is below this folder."""
        own = folder / "postgres"
        server = Postgres(own / "pg", port)
        return cls(ports.HOST, port, USER, own / "pgpass", PASSWORD, ADMIN_PASSWORD, registry, server)

    def url(self, database: str, driver: str = "psycopg2") -> str:
        """An SQLAlchemy URL without a password; the password file gives it."""
        return f"postgresql+{driver}://{self.user}@{self.host}:{self.port}/{database}"

    def jdbc(self, database: str) -> str:
        """The JDBC URL."""
        return f"jdbc:postgresql://{self.host}:{self.port}/{database}"

    def create_database(self, name: str | None = None) -> str:
        """A new empty database, owned by `user`; a unique name is made unless one is given."""
        chosen = name or f"test_{uuid4().hex[:12]}"
        self._server.prepare(self.admin_password, {}, {chosen: self.user})
        return chosen

    def copy_database(self, template: str) -> str:
        """A copy under a unique name. Nobody may be connected to the template."""
        name = f"test_{uuid4().hex[:12]}"
        # Copying the files takes half the time of copying the pages through the log, the default.
        self._run_as_admin("CREATE DATABASE {} OWNER {} TEMPLATE {} STRATEGY FILE_COPY", name, self.user, template)
        return name

    def create_registry(self) -> str:
        """A new migrated registry: a copy, which takes a small part of the time that migrating takes."""
        return self.copy_database(self.registry)

    def drop_database(self, name: str) -> None:
        """Remove a database, ending the connections to it."""
        self._run_as_admin("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def end_connections(self, *databases: str) -> None:
        """End every connection to these databases, as a restart of the server does."""
        for each in databases:
            with (
                closing(self._server.connect(each, "postgres", password=self.admin_password)) as link,
                link.cursor() as cursor,
            ):
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    def _run_as_admin(self, statement: str, *names: str) -> None:
        from psycopg2 import sql

        with (
            closing(self._server.connect("postgres", "postgres", password=self.admin_password)) as link,
            link.cursor() as cursor,
        ):
            link.autocommit = True
            cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@dataclass(frozen=True)
class KafkaService:
    """A running broker; topics are never made by themselves."""

    bootstrap: str

    @property
    def cluster(self) -> Cluster:
        """The same, as Lakeward's own functions take it."""
        return Cluster("lakeward_kafka", self.bootstrap)

    def create_topic(self, name: str | None = None, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """A new topic, ready to use; a unique name is made unless one is given."""
        chosen = name or f"test-{uuid4().hex[:12]}"
        assert create_topic(self.bootstrap, chosen, partitions, config), f"the topic {chosen} exists already"
        return chosen

    def sent(self, topic: str) -> list[Any]:
        """Every message of a topic with one partition, from the first on."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": topic, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        try:
            while True:
                [message] = consumer.consume(1, timeout=30)
                if message.error() is not None:
                    return found
                found.append(message)
        finally:
            consumer.close()
