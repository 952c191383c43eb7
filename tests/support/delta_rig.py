"""A Delta table with its stream, whose batches are planned by the tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position, key, parse
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.delta import location, log, table
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.platform.runtime import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
SCHEMA = "_kafka_topic STRING, _kafka_partition INT, _kafka_offset BIGINT, kind STRING"
ROWS = 4


@dataclass
class Planned(DeltaWriter):
    """A writer whose batch is planned by the test: two of them can hold the very same batch."""

    query: str = "q"
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)

    def running(self, batch_id: int) -> RunningBatch:
        start, end = self.bounds.get(batch_id, (ROWS * batch_id, ROWS * (batch_id + 1)))
        return RunningBatch(self.query, batch_id, {"source": at(start)}, {"source": at(end)}, {"t": "id-1"})


def at(offset: int) -> str:
    return f'{{"t":{{"0":{offset}}}}}'


@dataclass
class Rig:
    """One table and its stream `flights`."""

    spark: SparkSession
    lake: Lake
    table: str

    @property
    def folder(self) -> Path:
        return location.folder_of(self.lake, self.table)

    def create(self, partition_by: tuple[str, ...] = ()) -> Rig:
        table.create(self.spark, self.lake, self.table, self.spark.createDataFrame([], SCHEMA).schema, partition_by)
        return self

    def writer(self, session: SparkSession | None = None, **more: Any) -> Planned:
        """A fresh one, as every start of a query has."""
        own = session or self.spark
        return Planned(own, "flights", self.table, "none", stateful=False, folder=self.folder, **more)

    def rows(self, start: int, end: int, session: SparkSession | None = None) -> DataFrame:
        columns = ("'t' _kafka_topic", "0 _kafka_partition", "id _kafka_offset", "concat('k', id % 2) kind")
        return (session or self.spark).range(start, end, numPartitions=1).selectExpr(*columns)

    def land(self, batch: int, writer: Planned | None = None) -> BatchResult:
        writer = writer or self.writer()
        bounds = writer.bounds.get(batch, (ROWS * batch, ROWS * (batch + 1)))
        return writer.land(self.rows(*bounds, writer.session), batch)

    def sql(self, statement: str) -> list[Any]:
        """`{t}` is the table's name in Spark."""
        return self.spark.sql(statement.format(t=f"spark_catalog.{self.table}")).collect()

    def values(self) -> list[int]:
        return sorted(row[0] for row in self.sql("SELECT _kafka_offset FROM {t}"))

    def position(self) -> Position:
        """As it stands in the table's own log, read without Spark."""
        found = log.read(self.folder)
        assert found is not None
        return parse(found.domains[key("flights")], "flights", self.table)

    def version(self) -> int:
        found = log.read(self.folder)
        assert found is not None
        return found.version

    def forge(self, number: int, operation: str, **parameters: Any) -> None:
        """A commit as another process writes it, over whatever is there."""
        for old in (self.folder / log.LOG).glob(f"*{number:020d}*crc"):
            old.unlink()
        info = {"timestamp": 1, "operation": operation, "operationParameters": parameters}
        text = json.dumps({"commitInfo": info}, separators=(",", ":"))
        (self.folder / log.LOG / f"{number:020d}.json").write_text(text + "\n")

    def history(self) -> list[str]:
        return [row["operation"] for row in self.sql("DESCRIBE HISTORY {t}")]


def maintain(rig: Rig) -> None:
    """The tightest maintenance there is: everything into one file, then every file gone that no version needs now."""
    unsafe = "spark.databricks.delta.retentionDurationCheck.enabled"
    session = rig.spark.newSession()
    session.conf.set(unsafe, "false")
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # VACUUM lists by 10,000 tasks
    session.sql(f"OPTIMIZE delta.`{rig.folder}`").collect()
    session.sql(f"VACUUM delta.`{rig.folder}` RETAIN 0 HOURS").collect()
