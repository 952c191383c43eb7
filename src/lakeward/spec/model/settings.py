"""Settings of a project: `conf/lakeward.yaml`."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

from pydantic import Field, field_validator

from lakeward.spec.model.base import Bool, Cores, PositiveInt, SpecModel, partial
from lakeward.spec.model.stream import Executors, SparkConf, StreamSpec
from lakeward.spec.model.types import Brokers, DriverName, Duration, Memory, Name, ObjectPlace, Span, SparkMaster


class KafkaConnection(SpecModel):
    """Brokers of a cluster that is not the embedded one. Passwords stand in the Airflow connection of the same id."""

    bootstrap: Brokers


class Connection(SpecModel):
    """An address by id, for runs without Airflow."""

    kafka: KafkaConnection


class Catalog(SpecModel):
    """Where the tables of the catalog `lake` stand, if not on this machine."""

    warehouse: ObjectPlace | None = None
    """Place on an object store for new tables, e.g. `s3://lake/warehouse`; those that are there stay where they are."""
    connection: Name | None = None
    """Id of the AWS connection with key, region and endpoint: of Airflow, or of a file of the home. Without one the
    machine's own identity counts (instance role, `~/.aws`). It alone is enough for streams that read files on S3."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Properties of the Iceberg catalog that win over the derived ones, e.g. those of a REST catalog; never a file of
    SQLite, which lets one process write at a time."""


MAINTENANCE: Final = DriverName("maintenance")
"""The Spark application of tables with `engine: submit`, as an entry of `drivers:`."""


class Driver(SpecModel):
    """A driver that several streams share; `maintenance`: the Spark application of tables with `engine: submit`."""

    cores: Cores = 2
    """Cores of a driver that works by itself (`backend: local`)."""
    memory: Memory = Memory("1g")
    """Memory of the driver's own process, wherever its executors are."""
    backend: Literal["local", "standalone", "yarn", "kubernetes"] = "local"
    """Who does the work: `local`, the driver's own process; `standalone`, executors on a Spark standalone cluster. The
    driver's process runs beside Airflow in both."""
    master: SparkMaster | None = None
    """Of a standalone cluster."""
    executors: Executors | None = None
    """Executors on the cluster; without it those a stream of the driver asks for, else `{min: 0, max: 2}`."""
    authenticate: Bool = False
    """Whether the cluster wants a secret (`spark.authenticate`): it is in `<home>/secrets/spark/<driver>.secret`."""
    compiler: Literal["quick", "full"] = "full"
    """Java's compilers: `full` pays off in a driver that lives for hours; `quick` starts with half the CPU."""
    spark: SparkConf = Field(default_factory=dict)
    """Settings of the whole Spark application, e.g. `spark.driver.maxResultSize`."""


class Reconcile(SpecModel):
    """How often the streams are looked at."""

    every: Span = Duration("60s")
    """Schedule of the reconcile Dag, the fallback that suffices alone."""
    watch: Span = Duration("5s")
    """The watcher's interval; it starts a reconcile at once when something changed."""
    lease: Span = Duration("15s")
    """How long a driver's lease lives without renewal."""


class Checker(SpecModel):
    """How soon landed rows are checked, and when the process that holds Great Expectations ready is made anew."""

    every: Span = Duration("60s")
    """What streams landed is checked this often at most; less often costs less, and people hear later."""
    max_age: Span = Duration("12h")
    max_runs: PositiveInt = 500
    """Check runs it has worked on."""
    max_memory: Memory = Memory("640m")
    """Memory it holds; about 400 MB are what it needs to be ready."""


class Keep(SpecModel):
    """How long what Lakeward records about itself is kept. Positions and generations are kept for ever."""

    batches: Span = Duration("30d")
    """One row a batch: what was landed when, from which offsets."""
    events: Span = Duration("90d")
    """The timelines."""
    incidents: Span = Duration("365d")
    """Counted from their end; an open one stays."""
    observations: Span = Duration("7d")
    """The newest figures of streams that were removed."""
    facts: Span = Duration("30d")
    plans: Span = Duration("30d")
    restarts: Span = Duration("90d")
    operations: Span = Duration("365d")
    actions: Span = Duration("365d")
    checks: Span = Duration("90d")
    """Quality runs with their checks; the run `verified` stands on stays."""
    results: Span = Duration("1095d")
    """What the table `lakeward.quality_results` of the lake keeps; whole months are removed."""
    samples: Span = Duration("30d")
    """Failing rows that were kept with checks as examples, and Data Docs, which show them; the checks stay longer."""
    requests: Span = Duration("1d")
    """Check runs that were asked for, with what they told and answered; their results are kept by `checks`."""
    changes: Span = Duration("1095d")
    """Who changed what: three years."""
    launches: Span = Duration("14d")
    """Folders of drivers that ended: logs, event log, thread dumps. The newest of each driver stays."""
    runs: Span = Duration("14d")
    """Runs of Dags and Airflow's logs, in the embedded Airflow."""

    @field_validator("*")
    @classmethod
    def _nothing_that_is_going_on(cls, value: Duration) -> Duration:
        if value.timedelta < timedelta(hours=1):
            raise ValueError(f"{value} would remove what is still going on; keep it 1h at least")
        return value


StreamDefaults = partial(
    StreamSpec,
    "StreamDefaults",
    without=frozenset({"id", "enabled", "sources", "reference", "transform", "rules", "sink", "quarantine", "lineage"}),
    whole=frozenset({"trigger"}),  # exactly one form: half of it means nothing
)
"""The keys of a stream that a project may give once for all streams."""


class Settings(SpecModel):
    """Everything of a project that is not one stream, one table policy or one suite."""

    defaults: StreamDefaults = StreamDefaults()  # type: ignore[valid-type]  # made by partial() above
    """Keys of a stream's spec that every stream takes unless its own file says otherwise, e.g. `owner`."""
    connections: dict[Name, Connection] = Field(default_factory=dict)
    catalog: Catalog = Catalog()
    checkpoints: ObjectPlace | None = None
    """Place on an object store for the checkpoints of streams, outside of the warehouse, e.g. `s3://lake/checkpoints`;
    reached by the catalog's connection."""
    drivers: dict[DriverName, Driver] = Field(default_factory=dict)
    reconcile: Reconcile = Reconcile()
    checker: Checker = Checker()
    keep: Keep = Keep()

    def driver(self, name: str) -> Driver:
        """The driver of that name; one that nobody declared has the defaults."""
        return self.drivers.get(DriverName(name), Driver())
