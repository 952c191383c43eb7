"""A table of PostgreSQL with its stream, whose batches are planned by the tests."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta_rig import ROWS, at

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.postgres import columns, connection, table
from lakeward.connectors.postgres.check import TableState
from lakeward.connectors.postgres.name import Name
from lakeward.connectors.postgres.writer import PostgresWriter
from lakeward.platform.runtime import Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"_kafka_topic": "string", "_kafka_partition": "int", "_kafka_offset": "bigint", "kind": "string"}


@dataclass
class Planned(PostgresWriter):
    """A writer whose batch is planned by the test: two of them can hold the very same batch."""

    query: str = "q"
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)

    def running(self, batch_id: int) -> RunningBatch:
        start, end = self.bounds.get(batch_id, (ROWS * batch_id, ROWS * (batch_id + 1)))
        return RunningBatch(self.query, batch_id, {"source": at(start)}, {"source": at(end)}, {"t": "id-1"})


@dataclass
class Rig:
    """One table and its stream `flights`."""

    spark: SparkSession
    database: Database
    pgpass: Path
    place: Name = field(default_factory=lambda: Name("served", "Flights"))

    def create(self, columns_: dict[str, str] = COLUMNS, keys: tuple[str, ...] = ()) -> Rig:
        with closing(connection.connect(self.database, self.pgpass, "test")) as held:
            table.prepare(held, "flights", self.place, columns.column_types("flights", columns_), keys)
        return self

    def writer(self, session: SparkSession | None = None, keys: tuple[str, ...] = (), **more: Any) -> Planned:
        """A fresh one, as every start of a query has."""
        upsert = ByKey(keys, more.pop("order_by", None)) if keys else None
        return Planned(
            session or self.spark, "flights", self.place.text, "none", stateful=False, database=self.database,
            place=self.place, pgpass=self.pgpass, upsert=upsert, **more,
        )  # fmt: skip

    def rows(self, start: int, end: int, session: SparkSession | None = None) -> DataFrame:
        columns_ = ("'t' _kafka_topic", "0 _kafka_partition", "id _kafka_offset", "concat('k', id % 2) kind")
        return (session or self.spark).range(start, end, numPartitions=1).selectExpr(*columns_)

    def land(self, batch: int, writer: Planned | None = None) -> BatchResult:
        writer = writer or self.writer()
        bounds = writer.bounds.get(batch, (ROWS * batch, ROWS * (batch + 1)))
        return writer.land(self.rows(*bounds, writer.session), batch)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """`{t}` is the table, `{p}` that of the positions."""
        with closing(connection.connect(self.database, self.pgpass, "test")) as held, held.cursor() as cursor:
            cursor.execute(statement.format(t=self.place.quoted, p=self.place.positions.quoted), values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def values(self) -> list[int]:
        return sorted(row[0] for row in self.sql('SELECT "_kafka_offset" FROM {t}'))

    def state(self) -> TableState:
        with closing(connection.connect(self.database, self.pgpass, "test")) as held:
            return table.read(held, "flights", self.place)

    def position(self) -> Position:
        found = self.state().position
        assert found is not None
        return found
