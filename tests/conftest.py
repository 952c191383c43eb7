"""Real services every test folder may use. They start when first asked for, once a run, and end with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import pytest
import structlog
from airflow_service import airflow  # noqa: F401  # a fixture
from secure_kafka import Guard, SecureKafka

from lakeward import jars
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform import ports
from lakeward.registry.engine import engine, migrate
from lakeward.stack import private, service_user
from lakeward.stack.kafka import Kafka, create_topic
from lakeward.stack.postgres import Postgres, environment, pgpass


@dataclass(frozen=True)
class PostgresService:
    """A running PostgreSQL.

    Attributes:
        host, port, user: where and as whom; the user owns every database made here.
        pgpass: 0600 password file: set `PGPASSFILE` to it, or pass it as `passfile`.
    """

    host: str
    port: int
    user: str
    pgpass: Path
    password: str
    admin_password: str
    _server: Postgres

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
        self._run_as_admin("CREATE DATABASE {} OWNER {} TEMPLATE {}", name, self.user, template)
        return name

    def create_registry(self) -> str:
        """A new migrated registry: a copy, which takes a small part of the time that migrating takes."""
        return self.copy_database(self._registry_template)

    @cached_property
    def _registry_template(self) -> str:
        name = self.create_database()
        migrate(self.url(name), self.pgpass)
        engine(self.url(name), self.pgpass).dispose()
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, ending the connections to it."""
        self._run_as_admin("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

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


def _wait(ready: Callable[[], None], log: Path) -> None:
    try:
        ready()
    except Exception as error:
        error.add_note(log.read_text(errors="replace")[-3000:])
        raise


DRIVER_PARTS = 3
"""In how many units the tests of streams run: by far the most, and each unit starts a session of its own."""
LONGEST_FIRST = (
    "airflow", *(f"spark/driver/{part}" for part in range(DRIVER_PARTS)), "spark/connectors",
    "faults/test_driver_fencing.py", "faults/test_exactly_once.py", "spark", "faults",
)  # fmt: skip


def layer(nodeid: str) -> str:
    """What stays in one process when several share a run (`make test`), so that the dear parts start once."""
    _, first, second, *rest = *nodeid.partition("::")[0].split("/"), ""
    if first == "dags" or second == "test_airflow_survival.py":
        return "airflow"
    if first == "spark" and second == "driver":
        return f"spark/driver/{crc32(rest[0].encode()) % DRIVER_PARTS}"  # whole files
    if first == "spark" and second == "connectors":
        return "spark/connectors"  # in parts of about the same length: a second session costs less than waiting for one
    return f"{first}/{second}" if first in ("unit", "faults") else first  # each of the faults starts drivers of its own


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Layers keep their random order within; the longest begin, so that the short ones fill what is left."""
    if hasattr(config, "workerinput"):
        ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: _rank(ranks, layer(item.nodeid)))


def _rank(ranks: dict[str, int], own: str) -> int:
    return ranks.get(own, ranks.get(own.partition("/")[0], len(ranks)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One unit of work is a layer."""
    from xdist.scheduler import LoadScopeScheduling

    class ByLayer(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return layer(nodeid)

    return ByLayer(config, log)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process says where logs go from then on; the next test has its own."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresService]:
    """A PostgreSQL of this run; databases of their own for whoever asks for one."""
    folder = tmp_path_factory.mktemp("postgres")
    server = Postgres(folder / "pg", ports.any_free(), {"fsync": "off", "full_page_writes": "off"})
    log = folder / "log"
    server.initialise("admin-password")
    with running(server.command(bound=True), log, signal.SIGINT, environment()):
        _wait(lambda: server.wait("admin-password"), log)
        server.prepare("admin-password", {"lakeward": "test-password"}, {"lakeward": "lakeward"})
        file = private.write(folder / "pgpass", pgpass(server.port, {"lakeward": "test-password"}))
        yield PostgresService(ports.HOST, server.port, "lakeward", file, "test-password", "admin-password", server)


@pytest.fixture
def database(postgres: PostgresService) -> Iterator[str]:
    """The name of an empty database of this test's own."""
    name = postgres.create_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaService]:
    """A Kafka broker of this run: `.bootstrap .create_topic(name, partitions)`."""
    folder = tmp_path_factory.mktemp("kafka")
    jars.ensure()
    java = jars.find_java()
    with ExitStack() as held:
        port, controller = ports.any_free(), ports.any_free()
        broker = Kafka(folder, port, controller)
        broker.initialise(java)
        log = folder / "log"
        held.enter_context(running(service_user.bound(broker.command(java)), log, signal.SIGTERM, dict(os.environ)))
        _wait(broker.wait, log)
        yield KafkaService(broker.bootstrap)


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """A broker behind SASL_SSL with access control; gives users and permissions."""
    folder = tmp_path_factory.mktemp("secure-kafka")
    jars.ensure()
    java = jars.find_java()
    made = SecureKafka(folder, ports.any_free(), ports.any_free(), ports.any_free())
    made.certificates()
    made.initialise(java)
    log = folder / "log"
    with running(service_user.bound(made.command(java)), log, signal.SIGTERM, dict(os.environ)):
        _wait(made.wait, log)
        yield Guard(made)
