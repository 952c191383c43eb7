"""One Spark session for the whole folder, with the lake's catalog on a real PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import interpretation
import pytest

from lakeward import jars
from lakeward.connectors.iceberg import catalog as addresses
from lakeward.connectors.spark import connect_server as server_side
from lakeward.engine import java_names
from lakeward.engine.session import BATCH_CONF, LOCAL_CHECKPOINT_FILES
from lakeward.jars.java import ROOM_FOR_CLASSES
from lakeward.platform import ports
from lakeward.platform.errors import expect
from lakeward.platform.runtime import CATALOG, Lake, Runtime
from lakeward.spec.model.driver_conf import QUICK
from lakeward.stack import private

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


BRIEF = ("-XX:+UseSerialGC", *QUICK.split(), ROOM_FOR_CLASSES)
"""For a JVM of some minutes: the second compiler would never earn its cost, nor full collections while classes come."""


COMPILED = {
    "test_one_pass", "test_wide", "test_good_rows_land_and_each_kind_of_bad_record_is_kept_with_its_reason",
    "test_windows_land_once_final_late_rows_are_counted_and_bad_ones_kept",
    "test_the_newest_row_of_each_key_stays_within_a_batch_and_across_batches",
}  # fmt: skip
"""Files and tests whose queries the gate compiles, as in production: the ways of a batch, state, and each writer
(appends of all in `test_one_pass`, upserts of Iceberg). The night compiles all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves its loopback sockets to the garbage collector; nothing of ours can close them."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"))


@pytest.fixture(scope="session")
def passwords(postgres: Any) -> Iterator[None]:
    """The environment that the JVM inherits, as a driver sets it: `PGPASSFILE` (for libpq too), the Python of workers,
    and the class of a REST catalog's login."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSFILE", str(postgres.pgpass))
        patch.setenv("SPARK_DIST_CLASSPATH", str(jars.own.LOGIN_JAR))
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # as a driver does: workers have what this environment has
        yield


@pytest.fixture(scope="session")
def lake(postgres: Any, passwords: None, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The catalog `lake` in a database of its own."""
    made = Lake(
        host=postgres.host,
        port=postgres.port,
        database=postgres.create_database(),
        user=postgres.user,
        warehouse=str(tmp_path_factory.mktemp("warehouse")),
    )
    addresses.create_schema(made, postgres.pgpass)
    return made


@pytest.fixture(scope="session")
def make_spark(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], SparkSession]:
    """Starts (or returns) the session; apart from `spark` for tests that restart it."""

    def make() -> SparkSession:
        from pyspark.sql import SparkSession

        jars.ensure()
        scratch = tmp_path_factory.mktemp("spark")
        builder = SparkSession.builder.master("local[2]").appName("lakeward-tests")
        for name, value in {
            "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars.spark_classpath()),
            "spark.driver.extraJavaOptions": " ".join([*BRIEF, *jars.archive.options()]),
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
            **BATCH_CONF,
            **LOCAL_CHECKPOINT_FILES,
            **addresses.spark_conf(lake),
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        java_names.remember()
        session.sparkContext.setLogLevel("ERROR")
        return session

    return make


@pytest.fixture(scope="session")
def spark(make_spark: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """The session of all tests here: `local[2]`, catalogs `lake` (Iceberg) and `spark_catalog` (Delta)."""
    session = make_spark()
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Queries of this session, and of sessions made meanwhile, are interpreted for one test, but at night."""
    conf = interpretation.of_the_gate()
    context = spark.sparkContext._jsc.sc().conf()  # a new session takes its conf from there: streams have such a one
    for name, value in conf.items():
        spark.conf.set(name, value)
        context.set(name, value)
    yield
    for name in conf:
        spark.conf.unset(name)
        context.remove(name)


@pytest.fixture
def speed(request: pytest.FixtureRequest) -> None:
    """Queries are interpreted, but in the files and tests of `COMPILED`."""
    if not {request.path.stem, request.function.__name__} & COMPILED:
        request.getfixturevalue("interpreted")


@pytest.fixture
def catalog(lake: Lake) -> Iterator[Catalog]:
    """The same catalog through PyIceberg, without a JVM."""
    from pyiceberg.catalog import load_catalog

    loaded = load_catalog(CATALOG, **addresses.pyiceberg_properties(lake))
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def cleaner(lake: Lake) -> Iterator[Catalog]:
    """The catalog as `namespace` uses it around each test: a `DROP TABLE ... PURGE` of Spark takes a second of CPU."""
    from pyiceberg.catalog import load_catalog

    # Tests end the connections to the catalog.
    loaded = load_catalog(CATALOG, **addresses.pyiceberg_properties(lake), pool_pre_ping="true")
    yield loaded
    loaded.close()


@pytest.fixture
def namespace(spark: SparkSession, lake: Lake, cleaner: Catalog) -> Iterator[str]:
    """An empty namespace of the lake for one test; its tables and their files are removed afterwards."""
    name = f"ns_{uuid4().hex[:8]}"
    cleaner.create_namespace(name)
    yield name
    for table in cleaner.list_tables(name):
        cleaner.drop_table(table)
    cleaner.drop_namespace(name)
    shutil.rmtree(Path(lake.warehouse) / name, ignore_errors=True)


class ConnectServer:
    """A Connect server that can be killed and started again at its address; `start` waits until it answers.

    `token` is what its clients show; by default one of its own.
    """

    def __init__(self, lake: Lake, pgpass: Path, folder: Path, token: str = "") -> None:
        self.port, self.token, self.folder = ports.any_free(), token or f"token-{uuid4().hex}", folder
        conf = addresses.spark_conf(lake) | server_side.server_conf(self.port, "1g", folder / "temporary")
        conf |= {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
        conf |= interpretation.of_the_gate()
        (folder / "temporary").mkdir()
        home = jars.pyspark_jars().parent
        conf["spark.driver.extraJavaOptions"] += f" {QUICK}"
        self._command = [str(home / "bin" / "spark-submit")]
        for name, value in conf.items():
            self._command += ["--conf", f"{name}={value}"]
        self._command += ["--class", server_side.MAIN, "spark-internal"]
        self._env = {
            **os.environ, "SPARK_HOME": str(home), "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token,
            "PGPASSFILE": str(pgpass), "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip

    def start(self) -> None:
        log = self.folder / "log"
        with log.open("ab") as sink:
            self._server = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=self._env, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        end = monotonic() + 120
        while not (ports.answers(self.port) and server_side.answers(f"localhost:{self.port}", self.token)):
            assert self._server.poll() is None and monotonic() < end, log.read_text(errors="replace")[-3000:]
            sleep(0.3)

    def kill(self) -> None:
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def stop(self) -> None:
        self._server.send_signal(signal.SIGTERM)
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture(scope="session")
def connect_server(lake: Lake, postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A Connect server on loopback with a token, a migrated registry, and the runtime that names both."""
    folder = tmp_path_factory.mktemp("connect")
    jars.ensure()
    server = ConnectServer(lake, postgres.pgpass, folder)
    try:
        server.start()
        registry = postgres.create_registry()
        yield Runtime(
            registry_url_file=private.write(folder / "registry.url", postgres.url(registry)),
            pgpass=postgres.pgpass,
            lake=lake,
            connect=f"127.0.0.1:{server.port}",
            connect_token_file=private.write(folder / "token", server.token),
            checkpoints=str(folder / "checkpoints"),
            drivers=folder / "drivers",
            jars=jars.spark_folder(),
        )
    finally:
        server.stop()


@pytest.fixture
def own_server(lake: Lake, postgres: Any, connect_server: Runtime, tmp_path: Path) -> Iterator[ConnectServer]:
    """A Connect server of the test's own, started; it takes the token of the shared one."""
    folder = tmp_path / "connect"
    folder.mkdir()
    token_file = expect(connect_server.connect_token_file, "the token of the shared server")
    server = ConnectServer(lake, postgres.pgpass, folder, token_file.read_text().strip())
    try:
        server.start()
        yield server
    finally:
        server.stop()
