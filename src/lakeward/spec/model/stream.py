"""The spec of a stream: `conf/streams/<id>.yaml`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from lakeward.spec.model.base import Bool, Cores, Int, KeysProblem, PositiveInt, PositiveLong, SpecModel, Text
from lakeward.spec.model.sinks import Quarantine, Sink
from lakeward.spec.model.sources import Reference, Source
from lakeward.spec.model.transform import Transform
from lakeward.spec.model.trigger import Trigger
from lakeward.spec.model.types import DriverName, Duration, Memory, Name, Span, SparkKey, StreamId, TableName, Tag
from lakeward.spec.sql.statements import Expression

SINGLE = "source"
"""The name of the source of a stream that has only one and did not name it."""

OF_THE_SOURCE = ("decode", "watermark", "deduplicate")
"""Keys that may stand beside `source:` instead of inside it."""


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
    """What happens when the source's columns change."""

    evolution: Literal["fixed", "additive"] = "fixed"
    """`fixed`: another column is refused; `additive`: a start adds new columns to an Iceberg or Delta table and, in
    Iceberg, widens types; everything else is refused."""


class Limits(SpecModel):
    """When a stream counts as lagging or stalled."""

    freshness: Span = Duration("5m")
    """Lagging when the newest landed record is older than this while the source has newer ones."""
    lag_records: PositiveLong | None = None
    """Lagging when more records than this wait."""
    stall: Span = Duration("5m")
    """Stalled when no batch was committed for this long, and for two trigger intervals, although records wait."""


def silence_s(limits: Limits, every: Duration | None) -> float:
    """How long no batch may land although records wait, in seconds: `stall`, and at least two trigger intervals.

    A stream that lands once an hour does not hang in between.
    """
    return max(limits.stall.seconds, 0.0 if every is None else 2.0 * every.seconds)


class State(SpecModel):
    """The state store of a stream with windows, joins or deduplication."""

    provider: Literal["rocksdb", "hdfs"] = "rocksdb"
    """Where state is kept: RocksDB, on disk, or the executors' heap (`hdfs`); frozen in the checkpoint at the first
    start. `transformWithState` needs rocksdb."""
    max_rows: PositiveLong | None = None
    """Most rows of state; beyond it the stream says so, and an incident is open until it is well below again."""


class Executors(SpecModel):
    """How many executors, and how large; only where the backend has executors."""

    min: Annotated[Int, Field(ge=0)] = 0
    """Fewest; as many as `max` keeps all of them for as long as the driver runs."""
    max: PositiveInt = 2
    """Most; between `min` and `max` tasks that wait bring an executor, and one that has had no task for two minutes,
    and for three triggers, goes."""
    cores: Cores = 1
    """Cores of each: tasks at a time."""
    memory: Memory = Memory("1g")
    """Heap of each."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise KeysProblem(f"executors: min {self.min} is more than max {self.max}", "min", "max")
        return self


class Resources(SpecModel):
    """Which driver hosts the stream, and how large that driver is."""

    driver: DriverName | None = None
    """Name of the driver; streams with the same one share a process. Default: a driver of its own."""
    cores: Cores | None = None
    """Cores of a driver of its own."""
    driver_memory: Memory | None = None
    """Memory of a driver of its own."""
    executors: Executors | None = None
    """Executors of its driver, where that is declared with `backend: standalone` and without `executors:`."""


class Restart(SpecModel):
    """How a failed stream is restarted: 10 s x 2^n with full jitter."""

    max_backoff: Span = Duration("10m")
    """Longest wait between two restarts."""
    reset_after: Span = Duration("30m")
    """Commits for this long make the next failure the first again."""


class StreamSpec(SpecModel):
    """One stream: sources, a transform, a sink, and how it is run.

    `source:` with its keys beside it is the short form of `sources: {source: ...}`; both read into `sources`.
    A checkpoint is never given: its place follows from the stream's id.
    """

    id: StreamId
    """The stable id: it names the checkpoint, the Dag and the position in the table. Without it the file's name."""
    owner: Text
    """Who is asked when it fails."""
    team: Text | None = None
    """The team that may act on the stream's Dag in Airflow."""
    tags: tuple[Tag, ...] = ()
    """Words to find streams by."""
    enabled: Bool = True
    """Whether a new stream is started when it is deployed. It never stops one: an operation does."""
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    """Where the rows come from: `sources:` by name, or `source:` when there is one."""
    reference: dict[Name, Reference] = Field(default_factory=dict)
    """Small tables for joins, by the name the SQL uses."""
    transform: Transform = Transform(sql="SELECT * FROM source")
    requirements: Text | None = None
    """A pip requirements file in `python/`: the packages that this stream's Python needs, with versions and hashes."""
    packages: SkipJsonSchema[tuple[str, ...] | None] = None
    """Nobody writes it: the lines of that file, as the loader found them."""
    rules: dict[Name, Expression] = Field(default_factory=dict)
    """Name -> condition on the transform's columns. A row for which it is false goes to quarantine; as in a CHECK,
    unknown (NULL) is not false."""
    sink: Sink
    """Where the rows go."""
    quarantine: Quarantine | None = None
    """Where refused rows go. Without it the sink's table with _quarantine; needed when the sink is no table."""
    schema_: SchemaPolicy = Field(default=SchemaPolicy(), alias="schema")
    trigger: Trigger = Trigger(every=Duration("30s"))
    lineage: Literal["rows", "none"] | None = None
    """`rows`: the transform keeps the position columns, every record can be accounted for. Derived when not given."""
    limits: Limits = Limits()
    state: State = State()
    resources: Resources = Resources()
    spark: SparkConf = Field(default_factory=dict)
    """Spark settings of this stream's query. Those of a whole driver stand in conf/lakeward.yaml."""
    restart: Restart = Restart()

    @model_validator(mode="before")
    @classmethod
    def _single_source(cls, data: Any) -> Any:
        return long_form(data)

    @classmethod
    def also_written(cls) -> tuple[str, ...]:
        """Keys of the short form, which the model itself does not have."""
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
        found = dict.fromkeys(column for source in self.sources.values() for column in source.position_columns)
        return tuple(found)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables of the lake this stream writes: its sink's and its quarantine's."""
        kept = self.quarantine.table if self.quarantine else None
        return tuple(table for table in (self.sink.table, kept) if table is not None)


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
    beside = [key for key in OF_THE_SOURCE if key in data]
    source = data[SINGLE]
    if isinstance(source, dict):
        source = source | {key: data[key] for key in beside}
    rest = {key: value for key, value in data.items() if key != SINGLE and key not in beside}
    return rest | {"sources": {SINGLE: source}}


def mixed_forms(data: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Where short and long form are mixed: the path of what is too much, and why."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    beside = [key for key in OF_THE_SOURCE if key in data]
    source = data.get(SINGLE)
    if SINGLE in data and "sources" in data:
        found.append((("sources",), "give source: (one, then named source) or sources: (several, by name), not both"))
    elif "sources" in data:
        found += [((key,), f"{key} stands beside source: only; move it into one of the sources") for key in beside]
    if isinstance(source, dict):
        found += [((SINGLE, key), f"{key} stands both beside source: and inside it") for key in beside if key in source]
    return found


def written_path(path: tuple[str | int, ...], data: dict[str, Any]) -> tuple[str | int, ...]:
    """The path in the file as it was written, for a path in the long form."""
    if SINGLE not in data or path[:1] != ("sources",):
        return path
    inner = path[2:]
    return inner if inner and inner[0] in OF_THE_SOURCE and inner[0] in data else (SINGLE, *inner)
