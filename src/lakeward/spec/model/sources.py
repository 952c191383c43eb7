"""Sources: one model per connector, and the source with exactly one of them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from lakeward.spec.model.base import (
    Bool,
    Int,
    KeysProblem,
    PositiveInt,
    PositiveLong,
    SpecModel,
    Text,
    not_left_empty,
    only_one,
)
from lakeward.spec.model.decode import Decode
from lakeward.spec.model.format_source import FormatSource
from lakeward.spec.model.java_regex import no_pattern, not_shared
from lakeward.spec.model.position_columns import RECORD_COLUMNS, position_columns
from lakeward.spec.model.table_names import PostgresTable, TableName
from lakeward.spec.model.table_source import DeltaSource, IcebergSource
from lakeward.spec.model.types import AwsRegion, Duration, KinesisStream, Name, Span, StartingPosition, Topic
from lakeward.spec.sql.ddl import Ddl, ddl_columns

KAFKA_CONNECTION = "lakeward_kafka"
Offset = Annotated[Int, Field(ge=-2, le=2**63 - 1)]
"""An offset in Spark's form: -2 is the earliest, -1 the latest."""
Isolation = Literal["read_committed", "read_uncommitted"]
"""Kafka's isolation levels."""
NESTED = ("ARRAY", "MAP", "STRUCT")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")


class KafkaSource(SpecModel):
    """Topics of a Kafka broker. The brokers are in the connection, never in the spec."""

    one_of = ("kafka", ("topics", "pattern"))

    topics: tuple[Topic, ...] = ()
    """Topics to read, by name."""
    pattern: Text | None = None
    """Regular expression of topics to read, instead of `topics`: one that Java and Python read alike."""
    connection: Name = Name(KAFKA_CONNECTION)
    """Id of the Kafka connection: of Airflow, or of a file of the home."""
    starting_offsets: Literal["earliest", "latest"] | dict[Topic, dict[str, Offset]] = "earliest"
    """Where a stream without a position starts: `earliest`, `latest`, or `{topic: {"partition": offset}}`."""
    max_offsets_per_trigger: PositiveLong | None = None
    """Maximum number of records per batch; required, because otherwise the first batch after an outage reads the whole
    backlog. `real_time` and `continuous` have no batches and do not take it."""
    isolation_level: Isolation = "read_committed"
    """Whether records of open and aborted transactions are read (Kafka's `isolation.level`)."""
    mirror_offsets: Bool | None = None
    """Whether the landed offsets are copied to the consumer group `lakeward.<stream>`, in which Kafka's own tools show
    the lag. Default: `true`. Lakeward never reads the group."""

    @field_validator("topics")
    @classmethod
    def _each_once(cls, topics: tuple[Topic, ...]) -> tuple[Topic, ...]:
        twice = [topic for topic in dict.fromkeys(topics) if topics.count(topic) > 1]
        if twice:
            raise ValueError(f"{', '.join(twice)} is listed twice")
        return topics

    @field_validator("pattern")
    @classmethod
    def _regular_expression(cls, pattern: str | None) -> str | None:
        if why := no_pattern(pattern or "") or not_shared(pattern or ""):
            raise ValueError(why)
        return pattern

    def reads(self, topic: str) -> bool:
        """Whether it reads the topic."""
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    @model_validator(mode="after")
    def _topics_or_pattern(self) -> Self:
        only_one(type(self), {"topics": self.topics or None, "pattern": self.pattern})
        if isinstance(self.starting_offsets, dict):
            if not self.starting_offsets:
                message = "starting_offsets names no topic; give earliest, latest or offsets of every topic"
                raise KeysProblem(message, "starting_offsets")
            for topic, offsets in self.starting_offsets.items():
                if self.topics and topic not in self.topics:
                    read = ", ".join(self.topics)
                    message = f"starting_offsets names {topic}, which is not read here; topics: {read}"
                    raise KeysProblem(message, "starting_offsets", "topics")
                if not offsets or not all(_PARTITION.fullmatch(part) for part in offsets):
                    message = f'starting_offsets of {topic} must be {{"partition": offset}}, e.g. {{"0": 1500}}'
                    raise KeysProblem(message, "starting_offsets")
        return self


class KinesisSource(SpecModel):
    """A Kinesis data stream. Access keys are in the connection, never in the spec."""

    stream: KinesisStream
    """Its name."""
    region: AwsRegion
    """Its region, e.g. `eu-central-1`."""
    connection: Name | None = None
    """Id of the AWS connection: in Airflow, or in a file of the home. Without one the machine's identity is used
    (instance role, `~/.aws`)."""
    starting_position: StartingPosition = StartingPosition("TRIM_HORIZON")
    """Where a stream without a position starts: `TRIM_HORIZON` (the oldest record), `LATEST`, or a time."""
    max_records_per_trigger: PositiveInt
    """Maximum number of records per batch; required, because otherwise the first batch after an outage reads the whole
    backlog."""


TYPED = ("parquet", "orc", "avro")
"""Formats whose files contain their schema."""


class FilesSource(SpecModel):
    """Files that arrive in a folder, each read once. Move complete files in; later additions to a file are not read."""

    path: Text
    """Folder (with the folders below it), or a pattern such as `in/*/*.csv`; relative to the project, absolute, or on
    S3: `s3://bucket/prefix`."""
    format: Literal["json", "csv", "parquet", "orc", "avro", "text"]
    """`json`: one object per line, with `decode:`; `csv`, `parquet`, `orc`, `avro`: with `columns:`; `text`: each line
    is one column `value`."""
    columns: Ddl | None = None
    """Columns of a CSV, Parquet, ORC or Avro file as Spark DDL; a file or value that does not match is refused, never
    read as null."""
    header: Bool = True
    """Whether a CSV has a header; its names are compared with `columns:`."""
    nulls: str | None = None
    """The text for a null in a CSV, e.g. `NA`; an empty value is null too."""
    max_files_per_trigger: PositiveInt
    """Maximum number of files per batch."""
    after: Literal["keep", "archive", "delete"] = "keep"
    """What happens to a file after it has landed: `archive` moves it to `<folder>.archived`. A file that a
    table of this deployment names (`add_files`) is not touched, and blocks the stream. Tables of catalogs that the
    deployment does not have cannot be seen: keep files that they name."""

    @model_validator(mode="after")
    def _columns_of_a_format(self) -> Self:
        typed = self.format in ("csv", *TYPED)
        if typed and self.columns is None:
            message = f'{self.format} needs columns: "name TYPE, ..": a guess would change with the files'
            raise KeysProblem(message, "columns")
        if self.columns is not None and not typed:
            how = "decode: {json: ..} names its columns" if self.format == "json" else "it has one column, value"
            raise KeysProblem(
                f"columns belongs to csv, parquet, orc and avro; of {self.format} {how}", "columns", "format"
            )
        if self.format != "csv" and (self.nulls is not None or not self.header):
            raise KeysProblem(f"header and nulls belong to csv, not to {self.format}", "header", "nulls", "format")
        if self.columns is not None and self.format == "orc":
            times = [name for name, kind in ddl_columns(self.columns).items() if "TIMESTAMP" in kind.upper()]
            if times:
                message = "ORC keeps a time without a zone, and Spark reads it in the zone of the machine"
                raise KeysProblem(f"{message}; leave out {', '.join(times)}, or use parquet", "columns")
        if self.columns is not None and self.format == "csv":
            nested = [name for name, kind in ddl_columns(self.columns).items() if kind.startswith(NESTED)]
            if nested:
                raise KeysProblem(f"a CSV holds single values; {', '.join(nested)} is nested", "columns")
        return self


class SocketSource(SpecModel):
    """Lines of a TCP socket, as one column `value`, for experiments. Lines cannot be read twice: a stop or a kill loses
    lines, and each start begins without a position."""

    host: Text
    """The host to connect to."""
    port: Annotated[Int, Field(ge=1, le=65535)]
    """Its port."""


class RateSource(SpecModel):
    """Generated rows: for experiments and benchmarks."""

    rows_per_second: PositiveInt = 1
    """Rows per second, each with a `timestamp` and a `value` that counts up from 0; do not change it while the stream
    has a checkpoint."""


AnySource = (
    KafkaSource | KinesisSource | FilesSource | IcebergSource | DeltaSource | SocketSource | RateSource | FormatSource
)


class Watermark(SpecModel):
    """Watermark: how late an event may be and still count."""

    column: Name
    """The event's time: a TIMESTAMP of the source."""
    delay: Duration
    """Allowed lateness relative to the newest event."""
    max_ahead: Span | Literal["off"] | None = None
    """A record whose event is later than the wall clock by more than this goes to quarantine with the reason `ahead`:
    it would move the watermark, and all records before it would be dropped as late. `off`: no bound. Default: 1h for
    Kafka and Kinesis, off for other sources."""


class Deduplicate(SpecModel):
    """Drop duplicate records by key. A dropped record counts as filtered."""

    keys: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Columns that identify a record."""
    within_watermark: Bool = True
    """Drop a key from state when the watermark has passed it; needs `watermark`. `false`: keep every key forever."""


MAX_AHEAD = Duration("1h")
"""The default bound of events ahead of the wall clock."""
WALL_CLOCK = ("kafka", "kinesis")
"""Connectors whose records are written about when they happen: `max_ahead` can bound these only."""
SOURCE_CONNECTORS = ("kafka", "kinesis", "files", "iceberg", "delta", "socket", "rate", "format")


class Source(SpecModel):
    """One source of a stream: exactly one connector, with decoding, watermark and deduplication."""

    one_of = ("a source", SOURCE_CONNECTORS)

    kafka: KafkaSource | None = None
    kinesis: KinesisSource | None = None
    files: FilesSource | None = None
    iceberg: IcebergSource | None = None
    delta: DeltaSource | None = None
    socket: SocketSource | None = None
    rate: RateSource | None = None
    format: FormatSource | None = None
    decode: Decode | None = None
    watermark: Watermark | None = None
    deduplicate: Deduplicate | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_left_empty(cls, data: Any) -> Any:
        return not_left_empty(data, SOURCE_CONNECTORS)

    @model_validator(mode="after")
    def _one_connector(self) -> Self:
        only_one(type(self), self._connectors())
        return self

    @property
    def max_ahead(self) -> Duration | None:
        """How much later than the wall clock an event may be; None without a bound."""
        if self.watermark is None or self.watermark.max_ahead == "off":
            return None
        if self.watermark.max_ahead is not None:
            return Duration(self.watermark.max_ahead)
        return MAX_AHEAD if self.connector in WALL_CLOCK else None

    def _connectors(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in SOURCE_CONNECTORS}

    @property
    def connector(self) -> str:
        """The connector's name, e.g. `kafka`."""
        return only_one(type(self), self._connectors())

    @property
    def options(self) -> AnySource:
        """The connector's own model."""
        chosen: AnySource = getattr(self, self.connector)
        return chosen

    @property
    def from_table(self) -> str | None:
        """The table of the lake it reads, `namespace.name`; None for any other source."""
        table = self.iceberg or self.delta
        return None if table is None else str(table.table)

    @property
    def declared_columns(self) -> str | None:
        """The declared columns of its records as DDL, without position columns; None if not declared."""
        if self.decode is not None and self.decode.ddl is not None:
            return self.decode.ddl
        if self.files is not None:
            return "value STRING" if self.files.format == "text" else self.files.columns
        if self.format is not None:
            return self.format.columns
        if self.socket is not None:
            return "value STRING"
        return "timestamp TIMESTAMP, value BIGINT" if self.rate is not None else None

    @property
    def position_columns(self) -> tuple[str, ...]:
        """The columns this source adds to every row, `_ingested_at` last."""
        return position_columns(self.connector)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """The columns beside the decoded ones: the position columns, and with `columns: all` the other columns of the
        record.
        """
        everything = self.decode is not None and self.decode.columns == "all"
        return (*(RECORD_COLUMNS.get(self.connector, ()) if everything else ()), *self.position_columns)


REFERENCE_FORMS = ("csv", "parquet", "iceberg", "delta", "jdbc")


class Reference(SpecModel):
    """Reference table: the static side of a join, a small table that is read again at an interval."""

    one_of = ("a reference", REFERENCE_FORMS)

    csv: Text | None = None
    """Path of a CSV file with a header, relative to the project or absolute."""
    parquet: Text | None = None
    """Path of a Parquet file or folder, relative to the project or absolute."""
    iceberg: TableName | None = None
    delta: TableName | None = None
    jdbc: JdbcReference | None = None
    columns: Ddl | None = None
    """Types of a CSV as Spark DDL. Default: every column is STRING; inferred types would change with the data."""
    nulls: str | None = None
    """The text for a null in a CSV, e.g. `NA`."""
    refresh: Span = Duration("10m")
    """How often the table is read again."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        kind = only_one(type(self), self._forms())
        if kind != "csv" and (self.columns or self.nulls is not None):
            message = "columns and nulls belong to a csv reference; the other forms know their types"
            raise KeysProblem(message, "columns", "nulls", "csv")
        return self

    def _forms(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in REFERENCE_FORMS}

    @property
    def kind(self) -> str:
        """`csv`, `parquet`, `iceberg`, `delta` or `jdbc`."""
        return only_one(type(self), self._forms())


class JdbcReference(SpecModel):
    """A table or view of a PostgreSQL database."""

    connection: Name
    """A connection to PostgreSQL, by its id."""
    table: PostgresTable
    """`table` (in schema `public`) or `schema.table`, case-sensitive."""


Reference.model_rebuild()
