"""Settings of a project: `conf/lakeward.yaml`."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

from pydantic import Field, field_validator

from lakeward.platform.runtime import AWS_REGION, CATALOG, GLUE_ENDPOINT
from lakeward.spec.model.base import Bool, Cores, PositiveInt, SpecModel, partial
from lakeward.spec.model.stream import Executors, SparkConf, StreamSpec
from lakeward.spec.model.table_names import KnownCatalogs
from lakeward.spec.model.types import (
    AwsRegion,
    Brokers,
    CatalogAddress,
    DriverName,
    Duration,
    Image,
    KubernetesName,
    Memory,
    MountPath,
    Name,
    Namespace,
    ObjectPlace,
    ResourceManagers,
    Span,
    SparkMaster,
    SparkService,
    YarnQueue,
)


class KafkaConnection(SpecModel):
    """Brokers of a cluster other than the embedded one. Passwords are in the Airflow connection of the same id."""

    bootstrap: Brokers


class Connection(SpecModel):
    """An address by id, for runs without Airflow."""

    kafka: KafkaConnection


class Catalog(SpecModel):
    """Where the tables of the embedded catalog are, if not on this machine."""

    warehouse: ObjectPlace | None = None
    """Location on an object store for new tables, e.g. `s3://lake/warehouse`; existing tables do not move."""
    connection: Name | None = None
    """Id of the AWS connection with key, region and endpoint: in Airflow, or in a file of the home. Without one the
    machine's identity is used (instance role, `~/.aws`). Streams that read files on S3 need nothing else."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Properties of the Iceberg catalog that override the derived ones, e.g. those of a REST catalog. SQLite is refused
    because it allows only one writing process."""


class LakeCatalog(SpecModel):
    """An Iceberg catalog of your lake. Its tables stay where they are."""

    type: Literal["jdbc", "rest", "hive", "glue"]
    """Protocol of the catalog; `rest`: Iceberg's REST protocol (Polaris, Lakekeeper, Unity, Gravitino, SeaweedFS, and
    the endpoints of AWS Glue and S3 Tables with `signing_name`); `hive`: a Hive Metastore; `glue`: AWS Glue's own
    API."""
    uri: CatalogAddress | None = None
    """Address of the server, e.g. `https://catalog.example.com/api/catalog`, or `thrift://metastore:9083`. `glue`: only
    if the address is not AWS's."""
    warehouse: str | None = Field(None, min_length=1)
    """The server's name of the warehouse, for a server with several; an address on an object store in some. `hive`:
    the folder or address below which new namespaces are created; `glue`: an address on S3 likewise. At the REST
    endpoint of Glue it is the account's number, at that of S3 Tables the ARN of the bucket."""
    region: AwsRegion | None = None
    """AWS region of Glue, or of the endpoint with `signing_name`; required there. In another REST catalog: of the files
    on S3."""
    signing_name: Literal["execute-api", "glue", "s3tables"] | None = None
    """`rest`: the AWS service that requests are signed for (SigV4). `connection` is then an AWS connection."""
    connection: Name | None = None
    """Id of the connection with the login: in Airflow (type `iceberg`), or in a file of the home. Without one requests
    have no login. `glue`, and with `signing_name`: id of an AWS connection, which signs requests and reads and writes
    the files; without one the machine's identity does."""
    store: Name | None = None
    """Id of the AWS connection that reads and writes the files of tables. Without one the server vends credentials for
    each table, or the machine's identity is used."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Further properties of the Iceberg catalog, e.g. `header.X-Project: sales`; no logins."""

    def iceberg(self) -> dict[str, str]:
        """The catalog's properties, in Iceberg's names."""
        address = GLUE_ENDPOINT if self.type == "glue" else "uri"
        given = {"type": self.type, address: self.uri, "warehouse": self.warehouse, AWS_REGION: self.region}
        if self.signing_name is not None:
            signing = {"signing-name": self.signing_name, "signing-region": self.region}
            given |= {"rest.sigv4-enabled": "true", **{f"rest.{key}": value for key, value in signing.items()}}
        return {key: str(value) for key, value in given.items() if value is not None} | self.properties

    @property
    def aws(self) -> bool:
        """Whether `connection` is an AWS connection, for requests and files alike."""
        return self.type == "glue" or self.signing_name is not None

    @property
    def login(self) -> Name | None:
        """The connection with a login of its own."""
        return None if self.aws else self.connection

    @property
    def keys(self) -> Name | None:
        """The AWS connection that reads and writes the files."""
        return self.connection if self.aws else self.store


MAINTENANCE: Final = DriverName("maintenance")
"""The Spark application of tables with `engine: submit`, as an entry of `drivers:`."""


class Driver(SpecModel):
    """A driver that several streams share; `maintenance`: the Spark application of tables with `engine: submit`."""

    cores: Cores = 2
    """Cores of a driver without executors (`backend: local`)."""
    memory: Memory = Memory("1g")
    """Memory of the driver process."""
    backend: Literal["local", "standalone", "yarn", "kubernetes"] = "local"
    """Where tasks run: `local`, in the driver process; `standalone`, on executors of a Spark standalone cluster, and
    where the driver process runs, `deploy_mode` says; `yarn`, on executors of YARN, which runs the driver process, too;
    `kubernetes`, in the driver process, which is a pod, or with `executors` in pods of their own."""
    deploy_mode: Literal["client", "cluster"] = "client"
    """`client`: the driver is a process of the machine that reconciles. `cluster`: a worker of the cluster runs it, and
    every Airflow host finds and stops it."""
    master: SparkMaster | None = None
    """Address of the standalone master; default: that of the connection."""
    rest: SparkService | None = None
    """The master's REST gateway, to which a driver in cluster mode is submitted; default: port 6066 of the master."""
    ui: SparkService | None = None
    """The master's page, which lists the drivers in cluster mode; default: port 8080 of the master."""
    queue: YarnQueue | None = None
    """Queue of YARN; default: that of the connection, else `default`."""
    hadoop_conf: MountPath | None = None
    """Folder with `yarn-site.xml` and `core-site.xml` on every Airflow host; default: that of the connection, else
    `HADOOP_CONF_DIR`."""
    resource_manager: ResourceManagers | None = None
    """Web addresses of YARN's ResourceManagers, with commas; default: those of the connection or `yarn-site.xml`."""
    image: Image | None = None
    """Image of the driver's pod, with the same Lakeward (`backend: kubernetes`)."""
    namespace: Namespace = Namespace("default")
    """Namespace of the driver's pod."""
    service_account: KubernetesName | None = None
    """Service account of the driver's pod; its token is mounted only with `executors`."""
    connection: Name | None = None
    """Id of the connection to the cluster, in Airflow or in a file of the home. `standalone`, `yarn`: of type `spark`;
    it gives master, deploy mode and queue. `kubernetes`: of type `kubernetes`, or a kubeconfig file; default: the
    service account of the pod that reconciles, else `KUBECONFIG` or `~/.kube/config`."""
    registry_secret: KubernetesName = KubernetesName("lakeward-registry")
    """Secret in that namespace with the registry's address and password file: keys `registry.url` and `pgpass`, with
    `executors` also `spark.secret`."""
    secrets: dict[KubernetesName, MountPath] = Field(default_factory=dict)
    """Further Secrets and where the driver's pod has them, e.g. `{lakeward-kafka: /home/lakeward/secrets/kafka}`."""
    executors: Executors | None = None
    """Executors on the cluster; default: those that a stream of the driver requests, else `{min: 0, max: 2}`.
    `kubernetes`: without it the driver runs all tasks."""
    authenticate: Bool = False
    """Whether the cluster requires a secret (`spark.authenticate`), in `<home>/secrets/spark/<driver>.secret`."""
    compiler: Literal["quick", "full"] = "full"
    """Java's compilers: `full` pays off in a driver that runs for hours; `quick` starts with half the CPU."""
    spark: SparkConf = Field(default_factory=dict)
    """Settings of the whole Spark application, e.g. `spark.driver.maxResultSize`."""


class Reconcile(SpecModel):
    """How often streams are reconciled."""

    every: Span = Duration("60s")
    """Schedule of the reconcile Dag: the fallback, which is sufficient without the watcher."""
    watch: Span = Duration("5s")
    """Poll interval of the watcher, which starts a reconcile immediately after a change."""
    lease: Span = Duration("15s")
    """Time to live of a driver's lease without renewal."""


class Checker(SpecModel):
    """How soon landed rows are checked, and when the checking process is restarted."""

    every: Span = Duration("60s")
    """Shortest interval between checks of landed rows; a longer one costs less and reports later."""
    planning: Span = Duration("20s")
    """Time within which Spark finishes the plan of checks. One without it is an error, and the others are computed
    again without it. The limit is longer while the machine is starved of CPU."""
    max_age: Span = Duration("12h")
    max_runs: PositiveInt = 500
    """Check runs after which the checking process is restarted."""
    max_memory: Memory = Memory("640m")
    """Memory above which the checking process is restarted; it needs about 400 MB when idle."""


class OpenLineage(SpecModel):
    """OpenLineage events, which are sent where OpenLineage is configured (`OPENLINEAGE_URL`, `openlineage.yml`)."""

    every: Span = Duration("5m")
    """Shortest interval between two events of a running stream. Each event covers all batches since the one before."""


class Keep(SpecModel):
    """Retention of Lakeward's own records. Positions and generations are kept forever."""

    batches: Span = Duration("30d")
    """Batches: one row per batch with time and offsets."""
    events: Span = Duration("90d")
    """Events of the timelines."""
    incidents: Span = Duration("365d")
    """Incidents, counted from their end; open incidents are kept."""
    observations: Span = Duration("7d")
    """Observations of removed streams."""
    lag_history: Span = Duration("3d")
    """Lag and state size of each stream over time, about one row per stream and minute."""
    facts: Span = Duration("30d")
    plans: Span = Duration("30d")
    restarts: Span = Duration("90d")
    operations: Span = Duration("365d")
    actions: Span = Duration("365d")
    checks: Span = Duration("90d")
    """Quality runs with their checks; the run that proves `verified` is kept."""
    results: Span = Duration("1095d")
    """Rows of the table `lakeward.quality_results`; whole months are removed."""
    samples: Span = Duration("30d")
    """Sample rows of failed checks, and the Data Docs that show them; the checks themselves are kept longer."""
    requests: Span = Duration("1d")
    """Requested check runs with their log and answer; their results are kept by `checks`."""
    changes: Span = Duration("1095d")
    """Changes: who changed what; three years."""
    launches: Span = Duration("14d")
    """Folders of ended drivers: logs, event log, thread dumps; of drivers in cluster mode, what the registry has. The
    newest of each driver is kept."""
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
    without=frozenset({"id", "enabled", "sources", "reference", "transform", "rules", "sink", "lineage"})
    | {"quarantine", "late"},
    whole=frozenset({"trigger"}),  # exactly one form; half of one has no meaning
)
"""The keys of a stream that a project may set once for all streams."""


class Settings(SpecModel):
    """The settings of a project: everything except streams, table policies and suites."""

    defaults: StreamDefaults = StreamDefaults()  # type: ignore[valid-type]  # made by partial() above
    """Defaults of all streams, e.g. `owner`; a stream's own file overrides them."""
    connections: dict[Name, Connection] = Field(default_factory=dict)
    catalog: Catalog = Catalog()
    catalogs: dict[Name, LakeCatalog] = Field(default_factory=dict)
    """Catalogs of your lake, by the names that they have in SQL, e.g. `prod`. Tables of the default one are
    `namespace.table`, or `prod.namespace.table`; those of the others are `NAME.namespace.table`."""
    default_catalog: Name | None = None
    """The catalog of tables that are written without a catalog; required if `catalogs` has several. `lake` is the
    embedded one, unless `catalogs` has another of that name; a single catalog is the default one by itself."""
    checkpoints: ObjectPlace | None = None
    """Location on an object store for checkpoints, outside of the warehouse, e.g. `s3://lake/checkpoints`; reached by
    the connection of the catalog."""
    drivers: dict[DriverName, Driver] = Field(default_factory=dict)
    reconcile: Reconcile = Reconcile()
    checker: Checker = Checker()
    openlineage: OpenLineage = OpenLineage()
    keep: Keep = Keep()

    def driver(self, name: str) -> Driver:
        """The driver of that name; an undeclared one has the defaults."""
        return self.drivers.get(DriverName(name), Driver())

    @property
    def lake(self) -> LakeCatalog | None:
        """The catalog that is used in place of the embedded one; None without one."""
        return self.catalogs.get(Name(self.lake_name)) if self.catalogs else None

    @property
    def lake_name(self) -> str:
        """The name of the lake's catalog in Spark, PyIceberg and SQL."""
        if self.default_catalog is not None and self.default_catalog in (*self.catalogs, CATALOG):
            return str(self.default_catalog)
        return str(next(iter(self.catalogs))) if len(self.catalogs) == 1 else CATALOG

    @property
    def prefix(self) -> str:
        """What names of tables in the project's files may begin with; empty for nothing.

        The default name is none: projects may have a nested namespace of that name.
        """
        return self.lake_name if self.lake is not None and self.lake_name != CATALOG else ""

    @property
    def known_catalogs(self) -> KnownCatalogs:
        """What names of tables in the project's files are read with."""
        return KnownCatalogs(catalog=self.prefix, others=tuple(self.others))

    @property
    def others(self) -> dict[str, LakeCatalog]:
        """The catalogs other than the default one, by name; none while no default one is named."""
        if self.lake is None and self.default_catalog != CATALOG:
            return {}
        return {str(name): each for name, each in self.catalogs.items() if name != self.lake_name}
