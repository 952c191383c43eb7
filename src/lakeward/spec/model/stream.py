"""The spec of a stream: `conf/streams/<id>.yaml`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from lakeward.spec.model.base import Bool, Cores, Int, KeysProblem, PositiveInt, PositiveLong, SpecModel, Text
from lakeward.spec.model.sinks import Late, Quarantine, Sink
from lakeward.spec.model.sources import Reference, Source
from lakeward.spec.model.table_names import TableName
from lakeward.spec.model.transform import Transform
from lakeward.spec.model.trigger import Trigger
from lakeward.spec.model.types import DriverName, Duration, Memory, Name, Span, SparkKey, StreamId, Tag
from lakeward.spec.sql.statements import Expression

SINGLE = "source"
"""The name of a single source without a name."""

OF_THE_SOURCE = ("decode", "watermark", "deduplicate")
"""Keys that may be beside `source:` instead of inside it."""


def _conf_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


SparkConf = dict[
    SparkKey,
    Annotated[str, BeforeValidator(_conf_value, json_schema_input_type=str | int | float | bool)],
]
"""Spark settings; numbers and booleans become the text Spark reads."""


class SchemaPolicy(SpecModel):
    """What happens when the columns of the source change."""

    evolution: Literal["fixed", "additive"] = "fixed"
    """`fixed`: a new column is refused; `additive`: a start adds new columns to an Iceberg or Delta table and, in
    Iceberg, widens types; all other changes are refused."""


class Limits(SpecModel):
    """When a stream counts as lagging or stalled."""

    freshness: Span = Duration("5m")
    """Lagging when the newest landed record is older than this while the source has newer ones."""
    lag_records: PositiveLong | None = None
    """Lagging when more records than this are not landed."""
    stall: Span = Duration("5m")
    """Stalled when no batch was committed for this long, and for two trigger intervals, although records wait."""


def silence_s(limits: Limits, every: Duration | None) -> float:
    """Seconds without a landed batch, while records wait, until the stream is stalled: `stall`, at least 2 intervals.

    A stream that lands once an hour is not stalled in between.
    """
    return max(limits.stall.seconds, 0.0 if every is None else 2.0 * every.seconds)


class State(SpecModel):
    """The state store of a stream with windows, joins or deduplication."""

    provider: Literal["rocksdb", "hdfs"] = "rocksdb"
    """State store: `rocksdb` on disk, or the executors' heap (`hdfs`); frozen in the checkpoint at the first start.
    `transformWithState` needs rocksdb."""
    max_rows: PositiveLong | None = None
    """Maximum number of state rows; above it an incident is open until the number is well below again."""


class Executors(SpecModel):
    """Number and size of executors; only for a backend with executors."""

    min: Annotated[Int, Field(ge=0)] = 0
    """Minimum; equal to `max`, all executors are kept while the driver runs."""
    max: PositiveInt = 2
    """Maximum."""
    by: Literal["tasks", "lag"] = "tasks"
    """What decides between `min` and `max`. `tasks`: Spark's dynamic allocation; waiting tasks add an executor, and an
    executor without a task for two minutes and three triggers is released. `lag`: the driver; as many as the records
    that arrive and wait need, at the rate it measures, to stay within the freshness limits."""
    cores: Cores = 1
    """Cores per executor: parallel tasks."""
    memory: Memory = Memory("1g")
    """Heap per executor."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise KeysProblem(f"executors: min {self.min} is more than max {self.max}", "min", "max")
        if self.by == "lag" and self.min == 0:
            raise KeysProblem(
                "executors: by: lag needs min: 1 or more; without an executor a stream that waits for its watermark "
                "hangs",
                "by", "min",
            )  # fmt: skip
        return self


class Resources(SpecModel):
    """The driver that hosts the stream, and its size."""

    driver: DriverName | None = None
    """Name of the driver; streams with the same driver share a process. Default: a driver for this stream only."""
    cores: Cores | None = None
    """Cores of a driver for this stream only."""
    driver_memory: Memory | None = None
    """Memory of a driver for this stream only."""
    executors: Executors | None = None
    """Executors of its driver, if that is declared with `backend: standalone` and without `executors:`."""


class Restart(SpecModel):
    """Restart policy of a failed stream: 10 s x 2^n with full jitter."""

    max_backoff: Span = Duration("10m")
    """Maximum wait between two restarts."""
    reset_after: Span = Duration("30m")
    """After committing for this long, the next failure counts as the first."""


class StreamSpec(SpecModel):
    """One stream: sources, a transform, a sink, and how it is run.

    `source:` with its keys beside it is the short form of `sources: {source: ...}`; both read into `sources`.
    A spec has no checkpoint: its location follows from the stream's id.
    """

    id: StreamId
    """The stable id: it names the checkpoint, the Dag and the position in the table. Default: the file name."""
    owner: Text
    """Who is contacted when it fails."""
    team: Text | None = None
    """The team that may act on the stream's Dag in Airflow."""
    tags: tuple[Tag, ...] = ()
    """Tags for filters and searches."""
    enabled: Bool = True
    """Whether a new stream is started when it is deployed. To stop a stream, use the operation."""
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    """Sources of the rows: `sources:` by name, or `source:` for a single one."""
    reference: dict[Name, Reference] = Field(default_factory=dict)
    """Reference tables for joins, by the name the SQL uses."""
    transform: Transform = Transform(sql="SELECT * FROM source")
    requirements: Text | None = None
    """A pip requirements file in `python/`: the packages of this stream's Python, with versions and hashes."""
    packages: SkipJsonSchema[tuple[str, ...] | None] = None
    """Set by the loader, not by users: the lines of that file."""
    rules: dict[Name, Expression] = Field(default_factory=dict)
    """Name -> condition on the transform's columns. A row for which it is false goes to quarantine; as in a CHECK,
    unknown (NULL) is not false."""
    sink: Sink
    """Sink of the rows."""
    quarantine: Quarantine | None = None
    """Quarantine of refused rows. Default: the sink's table with _quarantine; required if the sink is not a table."""
    late: Late | None = None
    """Keeps late records, which the state drops: for one Kafka or Kinesis source with a watermark, whose state is its
    `deduplicate` or one window of the watermark's column. Without it they are dropped."""
    schema_: SchemaPolicy = Field(default=SchemaPolicy(), alias="schema")
    trigger: Trigger = Trigger(every=Duration("30s"))
    lineage: Literal["rows", "none"] | None = None
    """`rows`: the transform keeps the position columns, so every record can be traced. Derived by default."""
    limits: Limits = Limits()
    state: State = State()
    resources: Resources = Resources()
    spark: SparkConf = Field(default_factory=dict)
    """Spark settings of this stream's query. Those of a whole driver belong in conf/lakeward.yaml."""
    restart: Restart = Restart()

    @model_validator(mode="before")
    @classmethod
    def _single_source(cls, data: Any) -> Any:
        return long_form(data)

    @classmethod
    def also_written(cls) -> tuple[str, ...]:
        """Keys of the short form, which the model does not have."""
        return (SINGLE, *OF_THE_SOURCE)

    @property
    def source(self) -> Source:
        """The only source.

        Raises:
            ValueError: there are several.
        """
        if len(self.sources) != 1:
            raise ValueError(f"stream {self.id} has several sources: {', '.join(self.sources)}")
        return next(iter(self.sources.values()))

    @property
    def driver(self) -> str:
        """The driver that hosts this stream."""
        return str(self.resources.driver or self.id)

    @property
    def position_columns(self) -> tuple[str, ...]:
        """All position columns of all sources, each once, in order."""
        columns = dict.fromkeys(column for source in self.sources.values() for column in source.position_columns)
        return tuple(columns)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables of the lake this stream writes: its sink's, its quarantine's and that of its late records."""
        rejected = tuple(kept.table for kept in (self.quarantine, self.late) if kept is not None)
        return (self.sink.table, *rejected) if self.sink.table is not None else rejected


def long_form(data: Any) -> Any:
    """The data of a spec with `source:` and its keys moved into `sources:`; other data is returned as it is.

    Raises:
        ValueError: short and long form are mixed.
    """
    if not isinstance(data, dict):
        return data
    for _, message in mixed_forms(data):
        raise ValueError(message)
    if SINGLE not in data:
        return data
    outside = [key for key in OF_THE_SOURCE if key in data]
    source = data[SINGLE]
    if isinstance(source, dict):
        source = source | {key: data[key] for key in outside}
    rest = {key: value for key, value in data.items() if key != SINGLE and key not in outside}
    return rest | {"sources": {SINGLE: source}}


def mixed_forms(data: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Mixtures of short and long form: the path of the excess key, and why."""
    problems: list[tuple[tuple[str | int, ...], str]] = []
    outside = [key for key in OF_THE_SOURCE if key in data]
    source = data.get(SINGLE)
    if SINGLE in data and "sources" in data:
        problems.append(
            (("sources",), "give source: (one, then named source) or sources: (several, by name), not both")
        )
    elif "sources" in data:
        problems += [
            ((key,), f"{key} is allowed beside source: only; move it into one of the sources") for key in outside
        ]
    if isinstance(source, dict):
        problems += [((SINGLE, key), f"{key} is both beside source: and inside it") for key in outside if key in source]
    return problems


def written_path(path: tuple[str | int, ...], data: dict[str, Any]) -> tuple[str | int, ...]:
    """The path as written in the file, for a path in the long form."""
    if SINGLE not in data or path[:1] != ("sources",):
        return path
    inner = path[2:]
    return inner if inner and inner[0] in OF_THE_SOURCE and inner[0] in data else (SINGLE, *inner)
