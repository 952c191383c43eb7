"""Names of datasets by OpenLineage's naming conventions, so that events of other tools mean the same dataset. Pure.

| dataset | namespace | name |
|---|---|---|
| Kafka topic | `kafka://<first broker>` | the topic |
| Iceberg or Delta table | scheme and host of its location, `file` for local ones | path of its location |
| files | likewise | path |
| PostgreSQL table | `postgres://<host>:<port>` | `<database>.<schema>.<table>` |
| Kinesis stream | `kinesis://<region>` | the stream |

A table of a catalog is named by its location, as OpenLineage's Spark integration names it. Its name in the catalog is a
symlink of the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from lakeward.spec.model.sinks import Sink
from lakeward.spec.model.sources import Reference, Source
from lakeward.spec.sql.names import catalog_in, dotted, name_parts

POSTGRES_PORT = 5432


@dataclass(frozen=True)
class Dataset:
    """One dataset.

    Attributes:
        table: its name in the catalog; None for what has none.
        format: iceberg | delta; None for what is no table of the lake.
        catalog: the name of its catalog in Spark; None for what is no table of the lake.
    """

    namespace: str
    name: str
    table: str | None = None
    format: str | None = None
    catalog: str | None = None


@dataclass(frozen=True)
class Postgres:
    """The address of a PostgreSQL database, without its login."""

    host: str
    port: int
    database: str


@dataclass(frozen=True)
class Addresses:
    """What a spec does not say about its datasets.

    Attributes:
        brokers: Kafka connection -> `host:port,host:port`; None if the connection is not known here.
        postgres: PostgreSQL connection -> its address; None likewise.
        catalog: the name of the default catalog.
        locations: table -> its location, as the last observation recorded it.
        formats: table -> iceberg | delta, likewise.
        project: folder that relative paths of a spec start from.
        further: the names of the further catalogs.
    """

    brokers: Callable[[str], str | None]
    postgres: Callable[[str], Postgres | None]
    catalog: str
    locations: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    project: str = "/"
    further: tuple[str, ...] = ()


def by_location(location: str, project: str = "/") -> Dataset:
    """The dataset at a path or URI. A relative path starts from the project."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else location
        absolute = path if path.startswith("/") else f"{project.rstrip('/')}/{path}"
        return Dataset("file", absolute.rstrip("/") or "/")
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return Dataset(f"{scheme}://{parts.netloc}", parts.path.strip("/") or "/")


def of_table(name: str, addresses: Addresses) -> Dataset | None:
    """The dataset of a table of the lake; None before its location was observed."""
    location = addresses.locations.get(name)
    if location is None:
        return None
    place = by_location(location)
    kind = addresses.formats.get(name)
    if (further := catalog_in(name, addresses.further)) is not None:
        return Dataset(place.namespace, place.name, dotted(name_parts(name)[1:]), kind, further)
    catalog = "spark_catalog" if kind == "delta" else addresses.catalog
    return Dataset(place.namespace, place.name, name, kind, catalog)


def of_topic(connection: str, topic: str, addresses: Addresses) -> Dataset | None:
    """The dataset of a topic; None if its brokers are not known here."""
    brokers = addresses.brokers(connection)
    return None if brokers is None else Dataset(f"kafka://{brokers.split(',')[0].strip()}", topic)


def of_source(source: Source, topics: tuple[str, ...], addresses: Addresses) -> tuple[Dataset | None, ...]:
    """The datasets of a source; None for one whose address is not known (yet). Empty for a source without a dataset.

    Args:
        topics: the topics that its offsets name, for a Kafka source.
    """
    if source.kafka is not None:
        connection = str(source.kafka.connection)
        names = dict.fromkeys((*map(str, source.kafka.topics), *topics))
        return tuple(of_topic(connection, topic, addresses) for topic in names)
    if source.kinesis is not None:
        return (Dataset(f"kinesis://{source.kinesis.region}", str(source.kinesis.stream)),)
    if source.files is not None:
        return (by_location(str(source.files.path), addresses.project),)
    if source.iceberg is not None:
        return (of_table(str(source.iceberg.table), addresses),)
    if source.delta is not None:
        return (of_table(str(source.delta.table), addresses),)
    return ()


def of_reference(reference: Reference, addresses: Addresses) -> tuple[Dataset | None, ...]:
    """The dataset of a reference table."""
    path = reference.csv or reference.parquet
    if path is not None:
        return (by_location(str(path), addresses.project),)
    if reference.iceberg is not None:
        return (of_table(str(reference.iceberg), addresses),)
    if reference.delta is not None:
        return (of_table(str(reference.delta), addresses),)
    if reference.jdbc is not None:
        return (_postgres(str(reference.jdbc.connection), str(reference.jdbc.table), addresses),)
    return ()


def of_sink(sink: Sink, addresses: Addresses) -> tuple[Dataset | None, ...]:
    """The dataset of a sink. Empty for a sink without one, e.g. the console."""
    if sink.iceberg is not None:
        return (of_table(str(sink.iceberg.table), addresses),)
    if sink.delta is not None:
        return (of_table(str(sink.delta.table), addresses),)
    if sink.kafka is not None:
        return (of_topic(str(sink.kafka.connection), str(sink.kafka.topic), addresses),)
    if sink.postgres is not None:
        return (_postgres(str(sink.postgres.connection), str(sink.postgres.table), addresses),)
    if sink.files is not None:
        return (by_location(str(sink.files.path), addresses.project),)
    return ()


def _postgres(connection: str, table: str, addresses: Addresses) -> Dataset | None:
    address = addresses.postgres(connection)
    if address is None:
        return None
    name = table if "." in table else f"public.{table}"
    return Dataset(f"postgres://{address.host}:{address.port}", f"{address.database}.{name}")
