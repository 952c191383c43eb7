"""A stream on a real broker, landed by `IcebergWriter`, run a few batches at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from lakeward.connectors.commit_protocol.position import Position, key, parse
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.iceberg import jvm, table
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "_kafka_topic STRING, _kafka_partition INT, _kafka_offset BIGINT, value STRING, kind STRING"


@dataclass
class Rig:
    """One stream from a topic to a table.

    `run()` starts the query, lands what is in the topic and stops; every batch's outcome is in `landed`.
    """

    spark: SparkSession
    bootstrap: str
    topic: str
    table: str
    checkpoint: Path
    catalog: Catalog
    stream: str = "flights"
    partitions: int = 2
    per_batch: int = 0
    starting: str = "earliest"
    stateful: bool | None = False
    patience_s: float = 60
    shape: Callable[[DataFrame], DataFrame] = lambda rows: rows
    before_batch: Callable[[DataFrame, int], None] = lambda rows, batch: None
    land: dict[str, Any] = field(default_factory=dict)
    landed: list[BatchResult] = field(default_factory=list)
    produced: int = 0

    def create(self, partition_by: tuple[str, ...] = ()) -> Rig:
        """Make the table."""
        empty = self.spark.createDataFrame([], SCHEMA)
        table.create(self.spark, self.table, self.shape(empty).schema, partition_by)
        return self

    def produce(self, count: int) -> None:
        """`count` more records, round robin over the partitions."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for _ in range(count):
            producer.produce(self.topic, str(self.produced).encode(), partition=self.produced % self.partitions)
            self.produced += 1
        assert producer.flush(30) == 0

    def read(self) -> DataFrame:
        """The streaming source, with position columns."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, "startingOffsets": self.starting}
        if self.per_batch:
            options["maxOffsetsPerTrigger"] = str(self.per_batch)
        raw = self.spark.readStream.format("kafka").options(**options).load()
        return raw.selectExpr(
            "topic _kafka_topic",
            "partition _kafka_partition",
            "offset _kafka_offset",
            "CAST(value AS STRING) value",
            "concat('k', partition % 2) kind",
        )

    def sink(self, name: str) -> IcebergWriter:
        """A fresh writer, as every start of a query has."""
        return IcebergWriter(
            self.spark,
            self.stream,
            self.table,
            name,
            generation=3,
            topic_ids=lambda: {"t": "id-1"},
            stateful=self.stateful,
            patience_s=self.patience_s,
        )

    def run(self, checkpoint: Path | None = None, rows: DataFrame | None = None) -> list[BatchResult]:
        """Land everything there is now; what this run landed. Raises what `land` raised."""
        name = f"q{uuid4().hex}"
        sink = self.sink(name)
        landed: list[BatchResult] = []
        raised: list[BaseException] = []

        def batch(frame: DataFrame, number: int) -> None:
            try:
                self.before_batch(frame, number)
                landed.append(sink.land(frame, number, **self.land))
            except LakewardError as error:
                raised.append(error)
                raise

        writer = self.shape(rows if rows is not None else self.read()).writeStream.queryName(name).foreachBatch(batch)
        query = writer.option("checkpointLocation", str(checkpoint or self.checkpoint)).trigger(availableNow=True)
        started = query.start()
        try:
            started.awaitTermination()
        except Exception:
            if raised:
                raise raised[0] from None
            raise
        finally:
            started.stop()
        self.landed += landed
        return landed

    def forget_commit(self, batch: int | None = None) -> None:
        """Lose the newest (or one) entry of Spark's commit log: the batch is run again at the next start."""
        folder = self.checkpoint / "commits"
        number = batch if batch is not None else max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        (folder / str(number)).unlink()
        with suppress(FileNotFoundError):
            (folder / f".{number}.crc").unlink()

    def copy_checkpoint(self, name: str) -> Path:
        """A copy of the checkpoint as it is now."""
        return Path(shutil.copytree(self.checkpoint, self.checkpoint.with_name(name)))

    def call(self, procedure: str, **arguments: str) -> None:
        """A maintenance procedure on the table; arguments are SQL expressions."""
        rest = "".join(f", {name} => {value}" for name, value in arguments.items())
        self.spark.sql(f"CALL lake.system.{procedure}(table => '{self.table}'{rest})").collect()

    def maintain(self) -> None:
        """The tightest maintenance there is: rewrite everything, then expire all but the head."""
        self.call("rewrite_data_files", options="map('rewrite-all','true')")
        self.call("expire_snapshots", older_than="TIMESTAMP '2100-01-01 00:00:00'", retain_last="1")

    def sql(self, statement: str) -> None:
        """A statement in which `{t}` is the table."""
        self.spark.sql(statement.format(t=f"lake.{self.table}"))

    def values(self) -> list[int]:
        """What the table holds, sorted, as PyIceberg reads it: a query of Spark costs several times that."""
        return sorted(map(int, self.catalog.load_table(self.table).scan().to_arrow()["value"].to_pylist()))

    def metadata(self) -> Any:
        """The table's metadata, a Java object."""
        return jvm.metadata_of(jvm.load(self.spark, self.table))

    def position(self) -> Position:
        """The position as it stands in the table."""
        return parse(self.metadata().properties().get(key(self.stream)), self.stream, self.table)

    def head(self) -> int:
        """Main's head."""
        found: int = self.metadata().currentSnapshot().snapshotId()
        return found

    def expected(self) -> list[int]:
        """What the table should hold: each record once."""
        return list(range(self.produced))

    def offsets(self, *ends: int) -> str:
        """The canonical offset for these ends of the partitions."""
        return json.dumps({self.topic: {str(p): end for p, end in enumerate(ends)}}, separators=(",", ":"))


@pytest.fixture
def rig(spark: SparkSession, kafka: Any, namespace: str, cleaner: Catalog, tmp_path: Path) -> Iterator[Rig]:
    """A stream with an empty topic of two partitions and an empty table."""
    topic = kafka.create_topic(partitions=2)
    yield Rig(spark, kafka.bootstrap, topic, f"{namespace}.flights", tmp_path / "checkpoint", cleaner).create()
