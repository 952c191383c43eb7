"""Real tables on a real Connect server, suites in a project, and one warm checking process for the whole folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import delta_log
import pyarrow as pa
import pytest
from delta_log import PLAIN
from log_lines import line
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DATA_FILE_TYPE
from pyiceberg.types import DoubleType
from sqlalchemy import Connection

from lakeward.connectors.delta import location
from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Home, Runtime
from lakeward.quality.delta.table import DeltaTable
from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.range import Read
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request
from lakeward.registry import engine, verifications

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

NAN_COUNTS = [each.name for each in DATA_FILE_TYPE[2].fields].index("nan_value_counts")
NOT_NULL = "{type: expect_column_values_to_not_be_null, kwargs: {column: carrier}, severity: critical, on_fail: hold}"
SANE = "{type: expect_column_values_to_be_between, kwargs: {column: delay, min_value: 0, max_value: 500}}"


@dataclass
class Checked:
    """A table, its project, and everything that may be done with them.

    Attributes:
        name: `namespace.table`.
        told: the sentences of all runs so far.
    """

    name: str
    spark: SparkSession
    runtime: Runtime
    project: Path
    process: CheckingProcess
    told: list[str] = field(default_factory=list)
    landed: int = 0

    def sql(self, text: str) -> list[Any]:
        """Run SQL in which `{t}` is the table."""
        return self.spark.sql(text.format(t=f"lake.{self.name}")).collect()

    def create(self) -> None:
        """Make it, empty and without Spark."""
        properties = {"format-version": "2", "write.parquet.compression-codec": "zstd"}
        metadata.catalog(self.runtime).create_table(self.name, PLAIN, properties=properties)

    def drop(self) -> None:
        """Remove it and its files, without Spark."""
        lake = metadata.catalog(self.runtime)
        with suppress(NoSuchTableError):
            folder = lake.load_table(self.name).metadata.location.removeprefix("file:")
            lake.drop_table(self.name)
            shutil.rmtree(folder)

    def append(self, rows: int = 10, *, bad: int = 0, slow: int = 0, by_spark: bool = False) -> int:
        """Commit one append, of which `bad` rows have no carrier and `slow` rows an absurd delay; its snapshot.

        Spark writes them only if told to or if nothing else can: its INSERT costs many times a commit without it.
        """
        if by_spark or not self.commit(self.next_rows(rows, bad, slow)):
            self.sql(
                f"INSERT INTO {{t}} SELECT id, if(id < {self.landed + bad}, null, 'AA'), "
                f"if(id < {self.landed + slow}, 9999D, 1D * (id % 100)), 0, id "
                f"FROM range({self.landed}, {self.landed + rows})"
            )
        self.landed += rows
        return self.head

    def commit(self, rows: pa.Table) -> bool:
        """Append rows without Spark; False if only Spark can, as for format v3."""
        loaded = metadata.load(metadata.catalog(self.runtime), self.name)
        if loaded.metadata.format_version > 2:
            return False
        columns = loaded.schema().fields[: len(PLAIN)]
        named = rows.rename_columns([each.name for each in columns])
        with loaded.transaction() as change, change.update_snapshot().fast_append() as snapshot:
            for file in _dataframe_to_data_files(change.table_metadata, named, loaded.io):
                # Spark counts NaN, PyIceberg does not, and checks believe the bounds of a double with that count only.
                file[NAN_COUNTS] = {each.field_id: 0 for each in columns if isinstance(each.field_type, DoubleType)}
                snapshot.append_data_file(file)
        return True

    def next_rows(self, rows: int, bad: int, slow: int) -> pa.Table:
        """The rows of the next append."""
        ids = range(self.landed, self.landed + rows)
        columns = (
            list(ids),
            [None if each < self.landed + bad else "AA" for each in ids],
            [9999.0 if each < self.landed + slow else float(each % 100) for each in ids],
            [0] * rows,
            list(ids),
        )
        return pa.table(dict(zip(PLAIN.names, columns, strict=True)), schema=PLAIN)

    def compact(self) -> None:
        """Rewrite every data file."""
        self.sql(
            f"CALL lake.system.rewrite_data_files(table => 'lake.{self.name}', options => map('rewrite-all', 'true'))"
        )

    def expire_all_but_the_head(self) -> None:
        """Expire every snapshot that no branch needs."""
        self.sql(
            f"CALL lake.system.expire_snapshots(table => 'lake.{self.name}', older_than => now(), retain_last => 1)"
        )

    def suite(self, *expectations: str, mask: tuple[str, ...] = (), more: str = "") -> None:
        """Write the table's suite; `more` are lines of its own."""
        lines = "".join(f"  - {each}\n" for each in expectations or (NOT_NULL, SANE))
        file = self.project / "expectations" / f"{self.name}.yaml"
        head = f"table: {self.name}\nowner: tests\nmask: [{', '.join(mask)}]\n{more}"
        file.write_text(f"{head}expectations:\n{lines}")

    def check(self, *, due: bool = False, scope: Any = None, suite: Path | None = None) -> dict[str, Any]:
        """Run the checks of this table; of every due table of the project with `due`. Empty when nothing was due."""
        request = Request(
            runtime=self.runtime,
            registry_url=self.url,
            project=self.project,
            tables=None if due else (self.name,),
            scope=scope,
            suite=suite,
        )
        results = self.process.ask(
            request, timeout_s=240, emit=lambda level, event, fields: self.told.append(line(event, fields))
        )
        return results[0] if results else {}

    @property
    def url(self) -> str:
        return self.runtime.registry_url_file.read_text()

    @property
    def history(self) -> History:
        """The metadata as it is now, read by PyIceberg."""
        return metadata.history(metadata.catalog(self.runtime), self.name)

    @property
    def head(self) -> int:
        head = self.history.head
        assert head is not None
        return head

    @property
    def verified(self) -> int | None:
        return self.history.verified

    def registry(self) -> AbstractContextManager[Connection]:
        """One transaction."""
        return engine.connect(self.url, self.runtime.pgpass)


@dataclass
class Versions(Checked):
    """The same for a Delta table; `{t}` is its path.

    Attributes:
        reader: a session for reads only, whose conf they change.
    """

    _: KW_ONLY
    reader: SparkSession

    def sql(self, text: str) -> list[Any]:
        return self.spark.sql(text.format(t=f"delta.`{self.folder}`")).collect()

    @property
    def folder(self) -> Path:
        return location.folder_of(self.runtime.lake, self.name)

    @property
    def proofs(self) -> list[dict[str, Any]]:
        with self.registry() as connection:
            return verifications.proofs(connection, self.name)

    @property
    def history(self) -> History:
        return DeltaTable(self.name, self.folder).look(self.proofs)[0]

    def create(self) -> None:
        """Make it, empty and without Spark."""
        delta_log.create(self.folder, PLAIN)

    def drop(self) -> None:
        """Remove it."""
        shutil.rmtree(self.folder)

    def commit(self, rows: pa.Table) -> bool:
        return delta_log.append(self.folder, rows)

    def optimize(self) -> int:
        self.sql("OPTIMIZE {t}")
        return self.head

    def vacuum(self) -> None:
        with session(self.runtime) as spark:
            spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
            spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
            spark.sql(f"VACUUM delta.`{self.folder}` RETAIN 0 HOURS").collect()

    def rows(self, read: Read) -> list[int]:
        """The ids of a read."""
        of = DeltaTable(self.name, self.folder)
        of.look(self.proofs)
        return sorted(row["id"] for row in of.rows(self.reader, read).select("id").collect())


@pytest.fixture(scope="session")
def remote(connect_server: Runtime) -> Iterator[SparkSession]:
    """A Connect session of the tests' own, to make and change tables with."""
    with session(connect_server) as spark:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.checked").collect()
        yield spark


@pytest.fixture(scope="session")
def reader(connect_server: Runtime) -> Iterator[SparkSession]:
    """A Connect session to read Delta tables with, as a check run has it: a new one costs more than most reads."""
    with session(connect_server) as spark:
        yield spark


@pytest.fixture(scope="session")
def checking(connect_server: Runtime) -> Iterator[CheckingProcess]:
    """One process a worker with Great Expectations warm: importing it once a module would cost minutes of CPU."""
    with CheckingProcess(connect_server) as process:
        yield process


@pytest.fixture
def make_table(
    remote: SparkSession, connect_server: Runtime, checking: CheckingProcess, tmp_path: Path
) -> Iterator[Callable[[], Checked]]:
    """Makes empty tables with a suite of two checks (not null: critical; a range: warning); dropped at the end."""
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    (tmp_path / "expectations").mkdir()
    made: list[Checked] = []

    def make() -> Checked:
        table = Checked(f"checked.t_{uuid4().hex[:10]}", remote, connect_server, tmp_path, checking)
        table.create()
        table.suite()
        made.append(table)
        return table

    yield make
    for table in made:
        table.drop()


@pytest.fixture
def table(make_table: Callable[[], Checked]) -> Checked:
    """One such table."""
    return make_table()


@pytest.fixture
def delta_table(
    remote: SparkSession, reader: SparkSession, connect_server: Runtime, checking: CheckingProcess, tmp_path: Path
) -> Iterator[Versions]:
    """An empty Delta table (version 0) with a suite of two checks."""
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    (tmp_path / "expectations").mkdir()
    name = f"checked.d_{uuid4().hex[:10]}"
    made = Versions(name, remote, connect_server, tmp_path, checking, reader=reader)
    made.create()
    made.suite()
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture
def home(table: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that leads to the services of the tests."""
    made = Home(tmp_path / "home")
    made.secrets.mkdir(parents=True)
    made.runtime_file.write_text(table.runtime.model_dump_json())
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(table.runtime.registry_url_file))
    return made.root
