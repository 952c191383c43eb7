"""A real Spark Connect server, a real registry, and small real tables."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import structlog
import time_machine
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.spark.connect import session
from lakeward.platform import private
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.registry import streams
from lakeward.registry.schema import generations
from lakeward.registry.schema import streams as stream_rows
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard import pins

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


@pytest.fixture(scope="session")
def remote(connect_server: Runtime) -> Iterator[SparkSession]:
    """A Connect session of the tests' own, to make and change tables with."""
    with session(connect_server) as spark:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.maintained")
        yield spark


LOW = """
unsafe:
  - match: maintained.*
    why: tables of a few rows
    compact: {min_fragments: 4, late_min_fragments: 3, late_after: 1h, cooldown: 1ms, cold_after: 10m}
    expire: {older_than: 1ms, min_snapshots: 1, every: 0s}
    tags: {enabled: false}
"""


@pytest.fixture
def site(connect_server: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MaintenanceContext:
    """Thresholds low enough for tables of a few rows; no wait for staged batches; no tag due after midnight."""
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))
    project = Project(tmp_path)
    project.tables_file.parent.mkdir()
    project.tables_file.write_text(LOW)
    return MaintenanceContext.of(connect_server, project)


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "origin", StringType(), required=False),
    NestedField(3, "ts", TimestamptzType(), required=False),
)
SPECS = {
    "": PartitionSpec(),
    "origin": PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="origin")),
}
"""Partitions of most tables, by their clause in SQL."""


@dataclass
class Made:
    """A table of a test.

    Attributes:
        name: `namespace.table`.
        spark: to change it with.
    """

    name: str
    spark: SparkSession
    site: MaintenanceContext

    @property
    def sql_name(self) -> str:
        return "lake." + self.name

    def append(self, times: int = 1, rows: int = 6) -> None:
        """Commit `times` appends of `rows` rows over two origins, a file a partition."""
        at = datetime(2013, 1, 15, 10, tzinfo=UTC)
        batch = pa.table(
            {
                "id": pa.array(range(rows), pa.int64()),
                "origin": pa.array([("EWR", "O'Hare")[n % 2] for n in range(rows)]),
                "ts": pa.array([at] * rows, pa.timestamp("us", "UTC")),
            }
        )
        for _ in range(times):
            self.site.load(self.name).append(batch)

    def sql(self, text: str) -> list[Any]:
        """Run SQL in which `{t}` is the table."""
        return self.spark.sql(text.format(t=self.sql_name)).collect()

    def rows(self) -> int:
        """Rows that are read, by PyIceberg: a query of Spark costs many times that."""
        return self.site.load(self.name).scan().to_arrow().num_rows

    def files(self) -> int:
        """Data files and delete files."""
        return self.site.load(self.name).inspect.files().num_rows

    def head(self) -> Any:
        """The current snapshot as PyIceberg reads it."""
        return self.site.load(self.name).current_snapshot()

    def snapshots(self) -> set[int]:
        return {each.snapshot_id for each in self.site.load(self.name).metadata.snapshots}

    def put_position(self, stream: str, snapshot: Any, seq: int = 1) -> None:
        """Say that `stream` landed up to `snapshot`, as a driver would."""
        held = Position(
            seq=seq, query_id="q", batch=seq - 1, end={"source": "{}"},
            snapshot=snapshot.snapshot_id, snapshot_seq=snapshot.sequence_number,
        )  # fmt: skip
        with self.site.load(self.name).transaction() as change:
            change.set_properties({key(stream): held.to_json()})


@pytest.fixture
def make_table(remote: SparkSession, site: MaintenanceContext) -> Iterator[Callable[..., Made]]:
    """Makes partitioned tables; dropped at the end."""
    made: list[Made] = []

    def make(partitions: str = "origin", **properties: str) -> Made:
        table = Made(f"maintained.t_{uuid.uuid4().hex[:10]}", remote, site)
        given = {"format-version": "2", "write.distribution-mode": "hash"} | properties
        if partitions in SPECS and given["format-version"] == "2":  # a statement of Spark costs a second of CPU
            given["write.parquet.compression-codec"] = "zstd"
            site.catalog.create_table(table.name, SCHEMA, partition_spec=SPECS[partitions], properties=given)
        else:
            clause = f"PARTITIONED BY ({partitions})" if partitions else ""
            listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
            table.sql(
                "CREATE TABLE {t} (id BIGINT, origin STRING, ts TIMESTAMP) "
                f"USING iceberg {clause} TBLPROPERTIES ({listed})"
            )
        made.append(table)
        return table

    yield make
    for table in made:
        site.catalog.drop_table(table.name)


@pytest.fixture
def of_yesterday(site: MaintenanceContext, remote) -> Iterator[Made]:
    """A table made yesterday evening, with two commits."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    table = Made(f"maintained.y_{uuid.uuid4().hex[:8]}", remote, site)
    columns = {"id": pa.int64(), "origin": pa.string(), "ts": pa.timestamp("us", "UTC")}
    with time_machine.travel(today - timedelta(hours=4), tick=True):
        site.catalog.create_table(table.name, pa.schema(columns))
        table.append(times=2)
    yield table
    site.catalog.drop_table(table.name)


@pytest.fixture
def stream(site: MaintenanceContext) -> Iterator[Callable[..., str]]:
    """Registers streams; removed at the end."""
    names: list[str] = []

    def register(table: str | None = None, desired: str = "running") -> str:
        name = f"s-{uuid.uuid4().hex[:8]}"
        with site.registry() as connection:
            streams.accept(connection, name, generation=1, driver="d", desired=desired)
        names.append(name)
        return name

    yield register
    with site.registry() as connection:
        for name in names:
            connection.execute(generations.delete().where(generations.c.stream == name))
            connection.execute(stream_rows.delete().where(stream_rows.c.id == name))


@pytest.fixture
def appending() -> Callable[[Made], AbstractContextManager[list[int]]]:
    """Appends like a stream, from a session of its own, while the block runs; the list holds rows landed."""

    @contextmanager
    def run(table: Made) -> Iterator[list[int]]:
        landed: list[int] = []
        stop = threading.Event()

        def work() -> None:
            with session(table.site.runtime) as spark:
                while not stop.is_set():
                    spark.sql(
                        f"INSERT INTO {table.sql_name} SELECT id, 'EWR', timestamp'2013-01-15 10:00:00' FROM range(5)"
                    ).collect()
                    landed.append(5)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            while not landed:
                assert thread.is_alive()
                sleep(0.05)
            yield landed
        finally:
            stop.set()
            thread.join()

    return run


@pytest.fixture
def command(site: MaintenanceContext, tmp_path: Path) -> Iterator[list[str]]:
    """The last words of a command that finds the deployment."""
    home = Home(tmp_path / "home")
    home.root.mkdir()
    (site.project.root / "conf" / "streams").mkdir()
    home.runtime_file.write_text(site.runtime.model_dump_json())
    assert site.runtime.pgpass is not None
    for source, file in ((site.runtime.registry_url_file, home.registry_url_file), (site.runtime.pgpass, home.pgpass)):
        private.write(private.folder(home.secrets) / file.name, source.read_text())
    yield ["-o", "json", "--home", str(home.root), "--project", str(site.project.root)]
    structlog.reset_defaults()
