"""Whole drivers as processes, on a real broker, catalog and registry."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psutil
from sqlalchemy import Connection

from lakeward import jars
from lakeward.connectors.iceberg import catalog as addresses
from lakeward.platform.runtime import Database, Home, Lake, Launch, Project, Runtime
from lakeward.registry import drivers, engine, generations, leases, streams
from lakeward.registry.observations import latest
from lakeward.spec.model.driver_conf import QUICK
from lakeward.spec.sql.names import name_parts
from lakeward.stack.kafka import create_topic
from lakeward.stack.stack import Stack

PATIENCE_S = 900.0


SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0
"""Between two looks of `wait_for`."""


def wait_for(what: str, done: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """Poll until `done` gives something true; says what did not happen.

    A look at a table takes CPU from the driver that is waited for: the more it takes, the longer the pause after it.
    """
    end = time.monotonic() + timeout_s
    while True:
        begun = time.monotonic()
        found = done()
        if found:
            return found
        looked_s = time.monotonic() - begun
        assert time.monotonic() < end, f"{what} did not happen within {timeout_s:.0f} s"
        time.sleep(min(max(SHORTEST_PAUSE_S, 5 * looked_s), LONGEST_PAUSE_S))


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
        """SIGKILL. Its JVM finds out a moment later, and works until then."""
        self.process.kill()
        self.process.wait(30)

    def stopped(self) -> bool:
        """Whether it stopped itself at a failpoint."""
        return str(psutil.Process(self.pid).status()) == psutil.STATUS_STOPPED

    def freeze(self) -> None:
        """Its JVM too: nothing of it runs on."""
        os.killpg(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def jvm(self) -> psutil.Process:
        """The JVM below it."""
        return next(each for each in psutil.Process(self.pid).children(recursive=True) if "java" in each.name())

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
    interpretation: Mapping[str, str] = field(default_factory=dict)
    """Conf by which drivers interpret their queries; empty: they compile them, as in production."""
    _held: dict[str, Any] = field(default_factory=dict)
    """A catalog for each lake of the runtime so far, for the many looks at a table."""

    wait_for = staticmethod(wait_for)

    def connect(self) -> AbstractContextManager[Connection]:
        return engine.connect(self.url, self.pgpass)

    def deploy(self, document: Mapping[str, Any], *, generation: int = 1, desired: str = "running") -> str:
        """Put a stream into the registry, as `lakeward deploy` would."""
        from lakeward.spec.model.stream import StreamSpec

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
                assert drivers.record_intent(connection, self.name, token=fresh, previous=previous, backend="local")
        place = self.folder / "drivers" / self.name / (folder or fresh[:8])
        place.mkdir(parents=True, exist_ok=True)
        # A JVM of a minute: the second compiler would never earn its cost.
        brief = {"spark.driver.extraJavaOptions": QUICK}
        settings = {
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            **brief,
            **self.interpretation,
            **(conf or {}),
        }
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

    def lake_sql(self, *statements: str) -> str:
        """Run statements on the lake, as maintenance would."""
        script = Path(__file__).parents[1] / "support" / "lake_sql.py"
        folder = self.folder / f"sql-{uuid4().hex[:6]}"
        command = [sys.executable, str(script), str(self.started[-1].launch.folder / "launch.json"), str(folder)]
        done = subprocess.run([*command, *statements], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

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
        return addresses.load_lake(self.runtime.lake, self.pgpass)

    def _look(self, table: str) -> Any:
        """The table as it is now, by a catalog that is kept; None if it does not exist yet."""
        from pyiceberg.exceptions import NoSuchTableError

        which = self.runtime.lake.model_dump_json()
        if which not in self._held:
            self._held[which] = self.catalog()
        try:
            return self._held[which].load_table(name_parts(table))
        except NoSuchTableError:
            return None

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table, without a JVM; none if it does not exist yet."""
        found = self._look(table)
        return [] if found is None else list(found.scan().to_arrow().to_pylist())

    def position(self, table: str, stream: str) -> dict[str, Any] | None:
        found = self._look(table)
        text = None if found is None else found.properties.get(f"lakeward.stream.{stream}.position")
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

    def end(self) -> None:
        for each in self.started:
            if each.process.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.process.wait(30)
        for catalog in self._held.values():
            catalog.close()
        self._held.clear()


def make_world(server: Any, passwords: Path, url: str, catalog: str, kafka: Any, folder: Path) -> World:
    jars.ensure()
    lake = Lake(host=server.host, port=server.port, database=catalog, user=server.user,
                warehouse=str(folder / "warehouse"))  # fmt: skip
    addresses.create_schema(lake, passwords)
    folder.mkdir(parents=True, exist_ok=True)
    url_file = folder / "registry.url"
    url_file.write_text(url)
    runtime = Runtime(
        registry_url_file=url_file, pgpass=passwords, lake=lake, kafka={"lakeward_kafka": kafka.bootstrap},
        checkpoints=str(folder / "checkpoints"), drivers=folder / "drivers", jars=jars.spark_folder(),
    )  # fmt: skip
    return World(folder, url, passwords, runtime, kafka, name=f"d{uuid4().hex[:8]}")


@contextmanager
def on_stack(home: Home, parts: Sequence[str] = ("postgres", "kafka")) -> Iterator[Callable[[Path], World]]:
    """A broker and a PostgreSQL for a campaign; makes worlds on them, each below the folder it is given."""
    project = Project(Path(__file__).parents[2])
    stack = Stack(project, home)
    try:
        stack.up(parts, None, print)
        site = Stack(project, home).site()
        lake = site.runtime().lake
        url, passwords = home.registry_url_file.read_text().strip(), home.pgpass
        os.environ["PGPASSFILE"] = str(passwords)

        def topic(name: str, partitions: int = 1) -> str:
            create_topic(site.kafka, name, partitions)
            return name

        broker = SimpleNamespace(bootstrap=site.kafka, create_topic=topic)

        engine.migrate(url, passwords)

        def make(folder: Path) -> World:
            made = make_world(lake, passwords, url, lake.database, broker, folder)
            return with_database(made, lake.database)

        yield make
    finally:
        stack.down(None, print)


def with_database(world: World, database: str) -> World:
    """The world with a connection `there` to a database of the same server, for sinks."""
    lake = world.runtime.lake
    where = Database(host=lake.host, port=lake.port, database=database, user=lake.user)
    world.runtime = world.runtime.model_copy(update={"postgres": {"there": where}})
    return world


def no_password_in(world: World, driver: DriverProcess) -> None:
    """No file of the launch holds the password of PostgreSQL."""
    secret = world.pgpass.read_text().strip().splitlines()[0].rsplit(":", 1)[-1]
    for name in ("driver.log", "spark.log", "stdout.log", "launch.json", "exit.json"):
        file = driver.launch.folder / name
        assert not file.exists() or secret not in file.read_text(), f"the password stands in {name}"


def simple_stream(stream: str, topic: str, table: str, **more: Any) -> dict[str, Any]:
    """The spec of a stream that lands `{"n", "s"}` records row by row."""
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
