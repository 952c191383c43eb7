"""What benchmarks of landing stand on: a catalog on a PostgreSQL of their own, a broker, a Spark session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import psutil
import structlog

from lakeward import jars
from lakeward.connectors.iceberg import catalog
from lakeward.driver.core_time import CoreTime
from lakeward.driver.listener import listener_of
from lakeward.driver.starting import QueryLauncher
from lakeward.engine import session
from lakeward.engine.assignment import Assignment
from lakeward.platform import ports
from lakeward.platform.runtime import Lake, Runtime
from lakeward.stack import private, service_user
from lakeward.stack.kafka import Kafka, create_topic
from lakeward.stack.postgres import Postgres, environment, pgpass


def cpu_seconds() -> float:
    """User and system time of this process and its JVM; nothing of the servers, nothing of helpers that are gone."""
    me = psutil.Process()
    total = 0.0
    for each in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system if each is me or _counts(each) else 0.0
    return total


def _counts(process: psutil.Process) -> bool:
    return "postgres" not in process.name() and not any("kafka.Kafka" in part for part in process.cmdline())


class BenchEnvironment:
    """Ends all it started. `folder` is removed by whoever made it.

    Attributes:
        folder, lake: scratch space; the catalog and its warehouse.
        bootstrap: the broker's address, once `topic` was called.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bootstrap = ""
        self._held = ExitStack()

    def __enter__(self) -> Self:
        jars.ensure()
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # the result alone is printed
        self.folder.chmod(0o755)  # the server runs as a user of its own
        try:
            self.lake = self._catalog()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def topic(self, name: str, partitions: int) -> str:
        """A new topic of a broker that runs from now on."""
        if not self.bootstrap:
            java, broker = jars.find_java(), Kafka(self.folder / "kafka", ports.any_free(), ports.any_free())
            (self.folder / "kafka").mkdir()
            broker.initialise(java)
            command = service_user.bound(broker.command(java))
            self._held.enter_context(running(command, self.folder / "kafka.log", signal.SIGTERM, dict(os.environ)))
            broker.wait()
            self.bootstrap = broker.bootstrap
        create_topic(self.bootstrap, name, partitions)
        return name

    def spark(self) -> Any:
        """A session on two cores, as a driver has it."""
        made = spark_on(self.lake, self.folder)
        made.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        self._held.callback(made.stop)
        return made

    def start(
        self,
        spark: Any,
        document: dict[str, Any],
        done: list[Any],
        progress: list[dict[str, Any]] | None = None,
    ) -> Any:
        """Start a declared stream as a driver does, without a registry; its batches and Spark's reports are kept."""
        runtime = Runtime(
            registry_url_file=self.folder / "none",
            lake=self.lake,
            kafka={"lakeward_kafka": self.bootstrap},
            checkpoints=str(self.folder / "checkpoints"),
            drivers=self.folder,
            jars=jars.spark_folder(),
        )
        name = document["id"]
        recorded = [] if progress is None else progress
        deaf = SimpleNamespace(note=lambda *_, **__: None, note_progress=lambda _, each, core_s: recorded.append(each))
        listener = listener_of(name, cast(Any, deaf), CoreTime(spark.sparkContext))
        starter = QueryLauncher(spark, runtime, lambda stream: None, done.append, lambda assignment: listener)
        return starter.start(Assignment(name, 1, document, f"{self.folder}/checkpoints/{name}"))

    def _catalog(self) -> Lake:
        server = Postgres(self.folder / "pg", ports.any_free(), {"fsync": "off"})
        server.initialise("admin")
        command = server.command(bound=True)
        self._held.enter_context(running(command, self.folder / "pg.log", signal.SIGINT, environment()))
        server.wait("admin")
        server.prepare("admin", {"lakeward": "bench"}, {"catalog": "lakeward"})
        file = private.write(self.folder / "pgpass", pgpass(server.port, {"lakeward": "bench"}))
        os.environ["PGPASSFILE"] = str(file)
        lake = Lake(port=server.port, warehouse=str(self.folder / "warehouse"))
        catalog.create_schema(lake, file)
        return lake


def spark_on(lake: Lake, folder: Path) -> Any:
    """A session on two cores over a lake, as a driver has it; whoever asked for it stops it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for name, value in {
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars.spark_classpath()),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        **session.BATCH_CONF,
        **session.LOCAL_CHECKPOINT_FILES,
        **catalog.spark_conf(lake),
    }.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


@contextmanager
def running(command: list[str], log: Path, stop: signal.Signals, env: dict[str, str]) -> Iterator[None]:
    """A server in a process group of its own, ended whatever happens."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, env=env, cwd="/"
        )
    try:
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
