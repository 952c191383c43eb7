"""Dependencies: the external systems a stream needs, by names that allow one incident for many affected streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lakeward.platform.runtime import Runtime
from lakeward.spec.model.file_paths import folder_of, on_s3
from lakeward.spec.sql.catalogs import lake_of

if TYPE_CHECKING:
    from lakeward.spec.model.settings import Driver


class Kind(StrEnum):
    """Kinds of external systems."""

    KAFKA = "kafka"
    CATALOG = "catalog"
    STORE = "store"
    CONNECT = "connect"
    POSTGRES = "postgres"
    MASTER = "master"
    KINESIS = "kinesis"
    KUBERNETES = "kubernetes"
    YARN = "yarn"


MACHINE = "the machine's identity"
"""Used in place of a connection where none is named."""
_LABELS = {
    Kind.KAFKA: "Kafka ({})",
    Kind.CATALOG: "the catalog ({})",
    Kind.STORE: "the store {}",
    Kind.CONNECT: "the Spark Connect server {}",
    Kind.POSTGRES: "PostgreSQL ({})",
    Kind.MASTER: "the Spark master {}",
    Kind.KINESIS: "Kinesis ({})",
    Kind.KUBERNETES: "the API of Kubernetes ({})",
    Kind.YARN: "the ResourceManager of YARN ({})",
}
_CLUSTERS = frozenset({Kind.MASTER, Kind.KUBERNETES, Kind.YARN})


@dataclass(frozen=True, order=True)
class Dependency:
    """One external system. `name`: the connection, the database, the folder or the address."""

    kind: Kind
    name: str

    @property
    def subject(self) -> str:
        """The subject of its incident."""
        return f"{self.kind}:{self.name}"

    @property
    def label(self) -> str:
        """Its name in a sentence."""
        return _LABELS[self.kind].format(self.name)

    @property
    def next(self) -> str:
        """The command that asks it again, and says what repairs it."""
        return "lakeward doctor" if self.kind in _CLUSTERS else "lakeward stack status"


def needs(spec: Mapping[str, Any], runtime: Runtime) -> frozenset[Dependency]:
    """The dependencies of one stream, from its resolved spec."""
    return frozenset(_needs(spec, runtime))


def _needs(spec: Mapping[str, Any], runtime: Runtime) -> Iterator[Dependency]:
    sink = spec.get("sink") or {}
    for end in (*(spec.get("sources") or {}).values(), sink):
        kafka = end.get("kafka")
        if kafka:
            yield Dependency(Kind.KAFKA, str(kafka.get("connection") or "lakeward_kafka"))
        kinesis = end.get("kinesis")
        if kinesis:  # one service for each region and connection
            yield Dependency(Kind.KINESIS, f"{kinesis['region']}, {kinesis.get('connection') or MACHINE}")
    for source in (spec.get("sources") or {}).values():
        path = str((source.get("files") or {}).get("path") or "")
        if on_s3(path):
            yield Dependency(Kind.STORE, folder_of(path))
    if postgres := sink.get("postgres"):
        yield Dependency(Kind.POSTGRES, str(postgres["connection"]))
    lakes = [lake_of(runtime.lake, table) for table in _written(spec)]
    lakes += [lake for table in _read(spec) if (lake := lake_of(runtime.lake, table)) is not runtime.lake]
    for lake in lakes:
        yield Dependency(Kind.CATALOG, lake.catalog)
    if runtime.lake in lakes and (not runtime.lake.rest or "delta" in sink):
        # The server of a REST catalog has the locations of its tables.
        yield Dependency(Kind.STORE, runtime.lake.warehouse)
    yield Dependency(Kind.STORE, runtime.checkpoints)


def _written(spec: Mapping[str, Any]) -> Iterator[str]:
    """The tables of the lake that a stream lands in."""
    sink = spec.get("sink") or {}
    ends = (sink.get("iceberg"), sink.get("delta"), spec.get("quarantine"), spec.get("late"))
    return (str(end["table"]) for end in ends if end)


def _read(spec: Mapping[str, Any]) -> Iterator[str]:
    """The Iceberg tables that it reads."""
    sources = (source.get("iceberg") for source in (spec.get("sources") or {}).values())
    yield from (str(source["table"]) for source in sources if source)
    references = (reference.get("iceberg") for reference in (spec.get("reference") or {}).values())
    yield from (str(table) for table in references if table)


def of_its_driver(entry: Driver, resource_managers: str | None = None) -> frozenset[Dependency]:
    """The dependency of a driver: what its cluster is asked by; none for a driver on this machine alone.

    Args:
        entry: its settings, with what their connection says.
        resource_managers: the web addresses of YARN, with commas, wherever they are configured.
    """
    kind, name = {
        "kubernetes": (Kind.KUBERNETES, entry.connection or MACHINE),
        "yarn": (Kind.YARN, resource_managers),
    }.get(entry.backend, (Kind.MASTER, entry.master))
    return frozenset() if name is None else frozenset({Dependency(kind, str(name))})


def of_the_platform(runtime: Runtime) -> frozenset[Dependency]:
    """The dependencies of maintenance and checks, which no stream has."""
    return frozenset({Dependency(Kind.CONNECT, runtime.connect)} if runtime.connect else ())
