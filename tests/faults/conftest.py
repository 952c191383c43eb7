"""Whole drivers as processes, on a real broker, catalog and registry: what the fault tests break."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from lakeward import jars
from lakeward.connectors.iceberg import catalog as addresses
from lakeward.registry import drivers, engine, generations, leases, streams
from lakeward.registry.observations import latest
from lakeward.runtime import CATALOG, Lake, Launch, Runtime
from lakeward.stack import ports, private
from lakeward.stack.postgres import Postgres, environment, pgpass

PATIENCE_S = 900.0


def wait_for(what: str, done: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """Poll until `done` gives something true; says what did not happen."""
    end = time.monotonic() + timeout_s
    while True:
        found = done()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not happen within {timeout_s:.0f} s"
        time.sleep(0.1)


@dataclass
class DriverProcess:
    """A driver as a backend starts it."""

    process: subprocess.Popen[bytes]
    launch: Launch

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> list[dict[str, Any]]:
        """The driver's own log, line by line."""
        file = self.launch.folder / "driver.log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["event"] == event]

    def exit(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the end; gives the exit code."""
        return self.process.wait(timeout_s)

    def exit_file(self) -> dict[str, Any]:
        return dict(json.loads((self.launch.folder / "exit.json").read_text()))

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.exit()

    def kill(self) -> None:
        """SIGKILL, and wait until its JVM is gone too."""
        self.process.kill()
        self.process.wait(30)

    def said(self) -> str:
        """Everything a failing test wants to see."""
        parts = [
            f"--- {name} ---\n{(self.launch.folder / name).read_text()[-6000:]}"
            for name in ("stdout.log", "driver.log", "spark.log")
            if (self.launch.folder / name).exists()
        ]
        return "\n".join(parts)


@dataclass
class World:
    """One deployment: registry, catalog, broker, and the drivers a test starts in it."""

    folder: Path
    url: str
    pgpass: Path
    runtime: Runtime
    kafka: Any
    name: str = "main"
    started: list[DriverProcess] = field(default_factory=list)

    wait_for = staticmethod(wait_for)

    def connect(self) -> AbstractContextManager[Connection]:
        return engine.connect(self.url, self.pgpass)

    def deploy(self, document: Mapping[str, Any], *, generation: int = 1, desired: str = "running") -> str:
        """Put a stream into the registry, as `lakeward deploy` would."""
        from lakeward.spec.stream import StreamSpec

        spec = StreamSpec.model_validate({"owner": "tests", **document})
        stream = str(spec.id)
        with self.connect() as connection:
            streams.accept(connection, stream, generation=generation, driver=self.name, desired=desired)
            generations.add(
                connection, stream=stream, generation=generation, spec=spec.document(), digest=uuid4().hex, sql=None,
                code={}, versions={}, author="tests", checkpoint=f"{self.runtime.checkpoints}/{stream}/1",
            )  # fmt: skip
        return stream

    def launch(
        self, *, env: Mapping[str, str] | None = None, conf: Mapping[str, str] | None = None, token: str | None = None,
        intend: bool = True, folder: str | None = None,
    ) -> DriverProcess:  # fmt: skip
        """Start a driver exactly as the local backend does."""
        fresh = token or uuid4().hex
        if intend:
            with self.connect() as connection:
                row = drivers.find(connection, self.name)
                previous = row.token if row else None
                assert drivers.intend(connection, self.name, token=fresh, previous=previous, backend="local")
        place = self.folder / "drivers" / self.name / (folder or fresh[:8])
        place.mkdir(parents=True, exist_ok=True)
        settings = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", **(conf or {})}
        launch = Launch(driver=self.name, token=fresh, folder=place, runtime=self.runtime, conf=settings)
        launch.write(place / "launch.json")
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
        clean |= {"PGPASSFILE": str(self.pgpass), **(env or {})}
        with (place / "stdout.log").open("ab") as sink:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "lakeward.driver", str(place / "launch.json")],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, env=clean, cwd="/",
            )  # fmt: skip
        found = DriverProcess(process, launch)
        self.started.append(found)
        return found

    def forget_leases(self) -> None:
        """Nobody waits for the leases of a driver that was killed."""
        with self.connect() as connection:
            row = drivers.find(connection, self.name)
            assert row is not None
            for scope in ("driver", "stream"):
                leases.release(connection, scope, sorted(leases.current(connection, scope)), row.token)

    def produce(self, topic: str, values: Sequence[bytes | str | None], partition: int = -1) -> None:
        """Send records and wait for the broker's word on each."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "message.max.bytes": 20_000_000})
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    def numbers(self, topic: str, numbers: Sequence[int]) -> None:
        """Send `{"n": ..}` for each number."""
        self.produce(topic, [json.dumps({"n": n, "s": f"row {n}"}) for n in numbers])

    def observation(self, stream: str) -> Any:
        with self.connect() as connection:
            return latest(connection).get(stream)

    def stream(self, stream: str) -> Any:
        with self.connect() as connection:
            return streams.get(connection, stream)

    def desire(self, stream: str, desired: str) -> None:
        with self.connect() as connection:
            streams.set_desired(connection, [stream], desired)

    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(CATALOG, **addresses.pyiceberg_properties(self.runtime.lake, self.pgpass))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table, without a JVM; none if it does not exist yet."""
        from pyiceberg.exceptions import NoSuchTableError

        found = self.catalog()
        try:
            return list(found.load_table(table).scan().to_arrow().to_pylist())
        except NoSuchTableError:
            return []
        finally:
            found.close()

    def position(self, table: str, stream: str) -> dict[str, Any] | None:
        from pyiceberg.exceptions import NoSuchTableError

        found = self.catalog()
        try:
            text = found.load_table(table).properties.get(f"lakeward.stream.{stream}.position")
        except NoSuchTableError:
            return None
        finally:
            found.close()
        return None if text is None else dict(json.loads(text))

    def landed(self, table: str, stream: str) -> int:
        """Rows the table's position counts."""
        position = self.position(table, stream)
        return 0 if position is None else int(position["totals"]["landed"])

    def wait_landed(self, table: str, stream: str, rows: int, timeout_s: float = PATIENCE_S) -> None:
        try:
            wait_for(f"{rows} rows in {table}", lambda: self.landed(table, stream) >= rows, timeout_s)
        except AssertionError as error:
            for each in self.started[-1:]:
                error.add_note(each.said())
            raise

    def wait_landed_or(self, table: str, stream: str, rows: int, other: Callable[[], bool]) -> None:
        """Wait for rows, or for something else to happen first."""
        wait_for(f"{rows} rows", lambda: other() or self.landed(table, stream) >= rows)

    def end(self) -> None:
        for each in self.started:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait(30)


@pytest.fixture
def world(postgres: Any, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A deployment and a driver's name of this test's own; whatever was started ends with the test."""
    monkeypatch.setenv("PGPASSFILE", str(postgres.pgpass))
    registry, catalog = postgres.create_database(), postgres.create_database()
    made = _world(postgres, postgres.pgpass, postgres.url(registry), catalog, kafka, tmp_path)
    yield made
    made.end()
    for database in (registry, catalog):
        postgres.drop_database(database)


@dataclass
class PrivatePostgres:
    """A PostgreSQL of one test's own, which it may stop and start."""

    server: Postgres
    folder: Path
    pgpass: Path
    user: str = "lakeward"
    host: str = ports.HOST
    _held: ExitStack = field(default_factory=ExitStack)

    @property
    def port(self) -> int:
        return self.server.port

    def start(self) -> None:
        self._held.enter_context(running(self.server, self.folder / "log"))
        self.server.wait("admin")

    def stop(self) -> None:
        self._held.close()


@contextmanager
def running(server: Postgres, log: Path) -> Iterator[None]:
    """The server in the foreground of its own process group."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            server.command(bound=True), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
            env=environment(), cwd="/",
        )  # fmt: skip
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture
def private_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgres]:
    """PostgreSQL with the databases `registry` and `catalog`."""
    folder = tmp_path_factory.mktemp("private")
    server = Postgres(folder / "pg", ports.any_free(), {"fsync": "off", "full_page_writes": "off"})
    server.initialise("admin")
    made = PrivatePostgres(
        server, folder, private.write(folder / "pgpass", pgpass(server.port, {"lakeward": "secret"}))
    )
    made.start()
    server.prepare("admin", {"lakeward": "secret"}, {"registry": "lakeward", "catalog": "lakeward"})
    yield made
    made.stop()


@pytest.fixture
def private_world(
    private_postgres: PrivatePostgres, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A world on `private_postgres`."""
    monkeypatch.setenv("PGPASSFILE", str(private_postgres.pgpass))
    url = f"postgresql://lakeward@{ports.HOST}:{private_postgres.port}/registry"
    made = _world(private_postgres, private_postgres.pgpass, url, "catalog", kafka, tmp_path)
    yield made
    made.end()


def _world(server: Any, passwords: Path, url: str, catalog: str, kafka: Any, folder: Path) -> World:
    jars.ensure()
    engine.migrate(url, passwords)
    lake = Lake(host=server.host, port=server.port, database=catalog, user=server.user,
                warehouse=str(folder / "warehouse"))  # fmt: skip
    addresses.create_schema(lake, passwords)
    url_file = folder / "registry.url"
    url_file.write_text(url)
    runtime = Runtime(
        registry_url_file=url_file, pgpass=passwords, lake=lake, kafka={"lakeward_kafka": kafka.bootstrap},
        checkpoints=str(folder / "checkpoints"), drivers=folder / "drivers", jars=jars.spark_folder(),
    )  # fmt: skip
    return World(folder, url, passwords, runtime, kafka, name=f"d{uuid4().hex[:8]}")


@pytest.fixture
def simple() -> Callable[..., dict[str, Any]]:
    """Makes the spec of a stream that lands `{"n", "s"}` records row by row."""

    def make(stream: str, topic: str, table: str, **more: Any) -> dict[str, Any]:
        return {
            "id": stream,
            "source": {"kafka": {"topics": [topic], "max_offsets_per_trigger": 500}},
            "decode": {"json": "n BIGINT, s STRING"},
            "transform": {"sql": "SELECT * FROM source"},
            "sink": {"iceberg": {"table": table}},
            "quarantine": {"table": f"{table}_quarantine"},
            "trigger": {"every": "500ms"},
            **more,
        }

    return make
