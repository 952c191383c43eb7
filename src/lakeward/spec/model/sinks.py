"""Sinks: one model per connector, and the sink with exactly one of them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from lakeward.spec.model.base import KeysProblem, PositiveInt, SpecModel, Text, not_left_empty, only_one
from lakeward.spec.model.format_source import FormatSink
from lakeward.spec.model.sources import KAFKA_CONNECTION
from lakeward.spec.model.table_layout import PartitionField
from lakeward.spec.model.table_names import DeltaTableName, PostgresTable, TableName
from lakeward.spec.model.types import ColumnName, Name, PythonCallable, Topic
from lakeward.spec.sql.statements import Expression

Keys = Annotated[tuple[ColumnName, ...], Field(min_length=1)]


class IcebergSink(SpecModel):
    """An Iceberg table of the lake."""

    table: TableName
    """The table; created at the first start if it does not exist."""
    mode: Literal["append", "complete", "upsert"] = "append"
    """Add rows, replace all rows, or insert and update by key."""
    keys: Keys | None = None
    """With `upsert`: the columns that identify a row."""
    order_by: ColumnName | None = None
    """With `upsert`: the column that says which of two rows with the same keys is newer."""
    delete_when: Expression | None = None
    """With `upsert`: rows for which this condition is true delete their key."""
    partition_by: tuple[PartitionField, ...] = ()
    """Partitioning of a table that does not exist yet."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Table properties at creation, on top of Lakeward's own."""
    write: Literal["merge-on-read", "copy-on-write"] | None = None
    """With `upsert`: how rows change, by delete files (`merge-on-read`, default) or by rewriting data files."""
    commit: Literal["exact", "native"] = "exact"
    """`exact`: the position commits with the data; `native`: Spark's own sink, for comparison only."""

    @model_validator(mode="after")
    def _upsert_needs_keys(self) -> Self:
        check_upsert(self.mode, self.keys, order_by=self.order_by, delete_when=self.delete_when, write=self.write)
        return self


class DeltaSink(SpecModel):
    """A Delta table."""

    table: DeltaTableName
    mode: Literal["append", "complete", "upsert"] = "append"
    keys: Keys | None = None
    order_by: ColumnName | None = None
    delete_when: Expression | None = None
    partition_by: tuple[ColumnName, ...] = ()

    @model_validator(mode="after")
    def _upsert_needs_keys(self) -> Self:
        check_upsert(self.mode, self.keys, order_by=self.order_by, delete_when=self.delete_when)
        return self


class KafkaSink(SpecModel):
    """A topic of a Kafka broker; at least once."""

    topic: Topic
    connection: Name = Name(KAFKA_CONNECTION)
    """Id of the Kafka connection: of Airflow, or of a file of the home."""
    key: Expression | None = None
    """The record's key: a column or an expression; without it the key is null."""
    value: Expression | None = None
    """The record's value: a column or an expression; without it the whole row as JSON."""
    mode: Literal["append", "update"] = "append"
    """Send final rows only, or every change of a group: `update` needs an aggregate and a `key`."""

    @model_validator(mode="after")
    def _update_needs_a_key(self) -> Self:
        if self.mode == "update" and self.key is None:
            message = "mode update sends a group each time it changes, and readers identify it by the key"
            raise KeysProblem(f"{message}; add key: to_json(struct(<the columns of GROUP BY>))", "mode", "key")
        return self


class PostgresSink(SpecModel):
    """A table of a PostgreSQL database; rows and position in one transaction."""

    connection: Name
    """A connection to PostgreSQL, by its id."""
    table: PostgresTable
    """`table` (in schema `public`) or `schema.table`, case-sensitive; created if it does not exist."""
    mode: Literal["append", "upsert"] = "append"
    """Add rows, or insert and update by key."""
    keys: Keys | None = None
    """With `upsert`: the columns that identify a row; an existing table needs a unique index on them."""
    order_by: ColumnName | None = None
    """With `upsert`: the column that says which of two rows with the same keys is newer."""

    @model_validator(mode="after")
    def _upsert_needs_keys(self) -> Self:
        check_upsert(self.mode, self.keys, order_by=self.order_by)
        return self


class FilesSink(SpecModel):
    """Files in a local folder, exactly once: each batch is a folder `seq=..` that appears atomically."""

    path: Text
    """The folder, absolute, used by this stream only."""
    format: Literal["json", "csv", "parquet", "orc", "avro", "text"]
    partition_by: tuple[ColumnName, ...] = ()
    """Columns that become folders below each batch's, e.g. `day=2026-03-01`."""

    @field_validator("path")
    @classmethod
    def _of_this_machine(cls, path: str) -> str:
        if "://" in path:
            message = "a folder of this machine, as a plain path: elsewhere no rename lets just one of two writers win"
            raise ValueError(f"{message}; write objects through a table of the lake")
        if not PurePosixPath(path).is_absolute():
            raise ValueError("an absolute path: a driver does not run in the project's folder")
        return path


class ConsoleSink(SpecModel):
    """The driver's log, for debugging; at least once."""

    mode: Literal["append", "update", "complete"] = "append"
    """Which groups of the SQL a batch logs: final ones, changed ones, or all."""
    rows: PositiveInt = 20
    """Maximum number of logged rows per batch; the number of the others is logged too."""


class MemorySink(SpecModel):
    """A table in the driver's memory: for tests."""


AnySink = IcebergSink | DeltaSink | KafkaSink | PostgresSink | FilesSink | ConsoleSink | MemorySink | FormatSink
SINK_CONNECTORS = ("iceberg", "delta", "kafka", "postgres", "files", "python", "console", "memory", "format")


class Sink(SpecModel):
    """Exactly one sink."""

    one_of = ("sink", SINK_CONNECTORS)

    iceberg: IcebergSink | None = None
    delta: DeltaSink | None = None
    kafka: KafkaSink | None = None
    postgres: PostgresSink | None = None
    files: FilesSink | None = None
    python: PythonCallable | None = None
    """A function `(df, batch)` in the project's `python/` folder, or of an installed package; at least once."""
    connection: Name | None = None
    """With `python`: id of the connection that the function gets as `batch.connection`."""
    code: SkipJsonSchema[dict[str, str] | None] = None
    """Set by the loader, not by users: the modules that the function needs, path below `python/` -> text."""
    console: ConsoleSink | None = None
    memory: MemorySink | None = None
    format: FormatSink | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_left_empty(cls, data: Any) -> Any:
        return not_left_empty(data, SINK_CONNECTORS)

    @model_validator(mode="after")
    def _one_connector(self) -> Self:
        chosen = only_one(type(self), self._connectors())
        if self.connection is not None and chosen != "python":
            message = f"connection is for a python sink; this sink is {chosen}"
            raise KeysProblem(f"{message}, and kafka and postgres name theirs inside", "connection")
        return self

    def _connectors(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in SINK_CONNECTORS}

    @property
    def connector(self) -> str:
        """The connector's name, e.g. `iceberg`."""
        return only_one(type(self), self._connectors())

    @property
    def options(self) -> AnySink | PythonCallable:
        """The connector's own model (for `python` the callable's name)."""
        chosen: AnySink | PythonCallable = getattr(self, self.connector)
        return chosen

    @property
    def table(self) -> TableName | None:
        """The lake's table this sink writes (Iceberg or Delta), None for the others."""
        lake = self.iceberg or self.delta
        return lake.table if lake else None

    @property
    def rows_in(self) -> str | None:
        """The table of the rows in any system, one name per table; None if the sink is not a table."""
        if self.postgres is None:
            return self.table
        return f"{self.postgres.connection}:{self.postgres.table.whole}"

    @property
    def mode(self) -> str:
        """`append`, `complete`, `upsert` or `update`; `append` for sinks without a mode."""
        return str(getattr(self.options, "mode", "append"))

    @property
    def label(self) -> str:
        """A short name of the sink for display: `nyc.flights`, `kafka:delay_alerts`."""
        if self.table:
            return str(self.table)
        if self.kafka:
            return f"kafka:{self.kafka.topic}"
        if self.postgres:
            return f"postgres:{self.postgres.table}"
        return f"files:{self.files.path}" if self.files else self.connector


def check_upsert(mode: str, keys: tuple[str, ...] | None, **only_upsert: object) -> None:
    """Check the keys that are valid with `upsert` only.

    Raises:
        ValueError: `upsert` without `keys`, or `keys` and related keys without `upsert`.
    """
    if mode == "upsert" and not keys:
        raise KeysProblem("mode upsert needs keys: the columns that identify a row", "mode", "keys")
    extra = [name for name, value in {"keys": keys, **only_upsert}.items() if value is not None]
    if mode != "upsert" and extra:
        message = f"{', '.join(extra)} belong{'s' if len(extra) == 1 else ''} to mode upsert; this is {mode}"
        raise KeysProblem(message, "mode", *extra)


class Quarantine(SpecModel):
    """Quarantine (dead-letter table): rows that could not be decoded or failed a rule."""

    table: TableName


class Late(SpecModel):
    """The table of late records: those that come at or before the watermark, and that Spark drops from its state."""

    table: TableName
    """A table of its own, with the columns of a quarantine table; created at the first start. Streams may share it."""
