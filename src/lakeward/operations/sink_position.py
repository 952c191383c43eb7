"""What recover, reset and skip-batch stand on: a table that says how far the stream is, and sources that can be told.

The position moves by the same compare-and-set as every batch, so a driver that is cut off from the registry and still
lands the stream is fenced by it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, Skip
from lakeward.connectors.delta import location as place
from lakeward.connectors.delta import log
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import mirror
from lakeward.connectors.iceberg import catalog, pyiceberg_table
from lakeward.connectors.iceberg.audit import scan
from lakeward.connectors.iceberg.pyiceberg_schema import spark_schema
from lakeward.connectors.kafka import broker, cluster
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.connectors.postgres import position_store as keepers
from lakeward.connectors.postgres.check import TableState, check_table
from lakeward.connectors.postgres.position_store import Keeper
from lakeward.operations.context import Context as Site
from lakeward.platform.errors import DependencyDown, Refused, SpecError
from lakeward.platform.runtime import CATALOG, Lake, Runtime
from lakeward.platform.text import count
from lakeward.spec.deploy.plan import keeps_state
from lakeward.spec.model.sources import KafkaSource
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


RECOVERED = "recovered"


@dataclass(frozen=True)
class Ground(ABC):
    """The table of a stream at one moment. `raw` is what the compare-and-set expects; None: nothing landed yet."""

    spec: StreamSpec
    name: str
    raw: str | None
    position: Position | None

    @abstractmethod
    def write(self, moved: Position) -> Position:
        """Set the position, if it is still the one that was read.

        Raises:
            Fenced: a driver landed a batch meanwhile; nothing was changed.
        """

    @property
    @abstractmethod
    def rows(self) -> Scan:
        """Reads the rows' positions in the source."""

    @property
    def location(self) -> str | None:
        """The table's folder; None where it has none."""
        return None


@dataclass(frozen=True)
class InLake(Ground):
    """An Iceberg table."""

    lake: Catalog
    table: Table

    def write(self, moved: Position) -> Position:
        """One commit of the table's properties."""
        return pyiceberg_table.write_position(self.lake, self.name, str(self.spec.id), moved, self.raw)

    @property
    def rows(self) -> Scan:
        return scan(self.table)

    @property
    def location(self) -> str | None:
        return str(self.table.location())


@dataclass(frozen=True)
class InPostgres(Ground):
    """A table of PostgreSQL."""

    keeper: Keeper
    state: TableState

    def write(self, moved: Position) -> Position:
        """One statement on the table of positions."""
        return self.keeper.write(moved, self.state)

    @property
    def rows(self) -> Scan:
        return self.keeper.scan


def of(site: Site, spec: StreamSpec, what: str) -> Ground:
    """The ground of an operation, whatever keeps the table; see `in_lake`."""
    return in_lake(site, spec, what) if spec.sink.postgres is None else _in_postgres(site, spec, what)


def _in_postgres(site: Site, spec: StreamSpec, what: str) -> Ground:
    _movable(site, spec, what)
    keeper = keepers.of(site.runtime, spec)
    state = keeper.state()
    halt = check_table(state)
    if halt is not None:
        raise Refused(f"Stream {spec.id} cannot be {what}", why=f"{halt.what}: {halt.why}", next=halt.next)
    return InPostgres(spec, keeper.table.text, state.raw, state.position, keeper, state)


def in_lake(site: Site, spec: StreamSpec, what: str) -> InLake:
    """The ground of an operation.

    Args:
        what: what cannot be done without it, e.g. `recovered`.

    Raises:
        Refused: the sink keeps no position, the stream keeps state, a source has no offsets, or there is no table.
        DependencyDown: the catalog cannot be reached.
    """
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import OperationalError

    name = _table(site, spec, what)
    try:
        lake = lake_of(site.runtime)
        table = lake.load_table(name)
    except OperationalError as error:
        raise DependencyDown(
            "The catalog does not answer", why=str(error.orig).strip().splitlines()[0], next="lakeward stack status"
        ) from None
    except NoSuchTableError:
        raise Refused(
            f"Stream {spec.id} cannot be {what}",
            why=f"table {name} does not exist",
            next=f"lakeward streams status {spec.id}   says whether anything was landed in it",
        ) from None
    raw = table.properties.get(position.key(str(spec.id)))
    return InLake(spec, name, raw, None if raw is None else position.parse(raw, str(spec.id), name), lake, table)


def lake_of(runtime: Runtime) -> Catalog:
    """The catalog of the lake."""
    from pyiceberg.catalog import load_catalog

    return load_catalog(CATALOG, **catalog.pyiceberg_properties(runtime.lake, runtime.pgpass))


def columns(runtime: Runtime, spec: StreamSpec) -> dict[str, Any] | None:
    """The columns of the sink's table as Spark's JSON of a schema; None where there is no table, or it cannot be asked:
    a driver compares them too, before it starts the query."""
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import OperationalError

    try:
        if spec.sink.delta is not None:
            found = log.read(place.folder_of(runtime.lake, str(spec.sink.delta.table)))
            return None if found is None else json.loads(found.metadata["schemaString"])
        if spec.sink.iceberg is not None:
            return spark_schema(lake_of(runtime).load_table(str(spec.sink.iceberg.table)).schema())
    except (NoSuchTableError, OperationalError, Refused, SpecError):
        return None
    return None


def _table(site: Site, spec: StreamSpec, what: str) -> str:
    sink = spec.sink.iceberg
    if spec.sink.delta is not None:
        raise Refused(
            f"Stream {spec.id} cannot be {what}",
            why="moving the position of a Delta table is not built yet; it is built for Iceberg",
            next="put the checkpoint back from a copy, or land into a new table under a new id",
        )
    if spec.sink.postgres is not None:
        raise Refused(
            f"Stream {spec.id} cannot be {what}",
            why="its sink is a table of PostgreSQL, which no other query of Spark keeps a position in",
            next="land into a new table",
        )
    if sink is None or sink.commit != "exact":
        raise Refused(
            f"Stream {spec.id} cannot be {what}",
            why="the position in its folder is moved by its batches alone"
            if spec.sink.files is not None
            else f"its sink ({spec.sink.connector}) keeps no position: only the checkpoint knows how far it is",
            next="put a lost checkpoint back from a copy; a record that cannot be worked on is for the transform: "
            f"change it, lakeward deploy, lakeward streams upgrade {spec.id}",
        )
    _movable(site, spec, what)
    return str(sink.table)


def _movable(site: Site, spec: StreamSpec, what: str) -> None:
    """The position says where to go on, and nothing but the position has to be moved.

    Raises:
        Refused: a source has no offsets, or the stream keeps state.
    """
    recovered = {"kafka", "files", "iceberg", "delta", "kinesis"} if what == RECOVERED else {"kafka"}
    other = [str(name) for name, source in spec.sources.items() if source.connector not in recovered]
    if other:
        raise Refused(
            f"Stream {spec.id} cannot be {what}",
            why=f"the position does not say where to go on in {', '.join(other)}: only Kafka's offsets say that",
            next="put the checkpoint back from a copy",
        )
    remembers = [str(name) for name, source in spec.sources.items() if source.deduplicate]
    if remembers or not _goes_through(spec):
        state = "its transform keeps state (windows, aggregates) or makes other rows than it reads"
        if remembers:
            state = f"it remembers the keys of {', '.join(remembers)}: without them a duplicate would land"
        raise Refused(
            f"Stream {spec.id} cannot be {what}",
            why=f"{state}, and state belongs to its checkpoint. {_cost(site, spec)}",
            next="put the checkpoint back from a copy, or land into a new table under a new id",
        )


def _goes_through(spec: StreamSpec) -> bool:
    """Whether each record goes through by itself. Rows of files and of tables have no lineage; their SQL tells."""
    untraced = any(source.files or source.from_table for source in spec.sources.values())
    return spec.lineage == "rows" or (untraced and spec.transform.sql is not None and not keeps_state(spec))


def _cost(site: Site, spec: StreamSpec) -> str:
    """What building the state anew would mean."""
    what = "To build it anew, everything the source still has is read again into a new table"
    try:
        left = sum(
            end - first.get(topic, {}).get(part, 0)
            for _, at, topics in kafka_of(site, spec).values()
            for first in [broker.begin_offsets(at, topics)]
            for topic, parts in broker.end_offsets(at, topics).items()
            for part, end in parts.items()
        )
    except (DependencyDown, SpecError) as error:
        return f"{what}; how much that is could not be asked: {error.what}"
    return f"{what}: {count(left, 'record')}, and what it no longer has is lost to the state"


def kafka_of(site: Site, spec: StreamSpec) -> dict[str, tuple[KafkaSource, Cluster, list[str]]]:
    """Source name -> its spec, its cluster and its topics now.

    Raises:
        DependencyDown: a broker does not answer.
    """
    found = {}
    for name, source in spec.sources.items():
        if source.kafka is not None:
            at = cluster.find(source.kafka.connection, site.runtime)
            found[str(name)] = (source.kafka, at, sorted(broker.topic_ids(at, source.kafka)))
    return found


def topic_ids(site: Site, spec: StreamSpec) -> dict[str, str]:
    """Topic -> its id in the broker, of all sources."""
    found: dict[str, str] = {}
    for kafka, at, _ in kafka_of(site, spec).values():
        found |= broker.topic_ids(at, kafka)
    return found


def with_new_partitions(site: Site, spec: StreamSpec, ends: Mapping[str, str]) -> dict[str, str]:
    """The ends, and the beginning of partitions that appeared since: a new query must be told of each."""
    whole = {str(name): ends[name] for name, each in spec.sources.items() if each.kafka is None and name in ends}
    for name, (_, at, topics) in kafka_of(site, spec).items():
        text = ends.get(name, NO_DATA)
        if text == NO_DATA:
            whole[name] = text
            continue
        known = kafka_position.parse(text)
        first = broker.begin_offsets(at, sorted({*known, *topics}))
        whole[name] = canonical(
            {topic: {**first.get(topic, {}), **known.get(topic, {})} for topic in sorted({*known, *first})}
        )
    return whole


def check_logs(found: Ground, lake: Lake) -> None:
    """The names of the files that have landed must be known, of every file source.

    Raises:
        Refused: the copy of a source's log beside the table does not hold the position.
    """
    ends = {} if found.position is None else found.position.end
    for name, source in found.spec.sources.items():
        end = ends.get(name, NO_DATA)
        if source.files is None or end == NO_DATA:
            continue
        folder = found.location and mirror.place(found.location, str(found.spec.id), str(name))
        if not folder or mirror.find(FileAccess(lake), folder, end) is None:
            raise Refused(
                f"Stream {found.spec.id} cannot be {RECOVERED}",
                why=f"which files of source {name} have landed is not in {folder or 'any copy of its log'}: {end}",
                next="put the checkpoint back from a copy, or land into a new table under a new id",
            )


def canonical(offsets: Offsets) -> str:
    """The form a position keeps."""
    return canonical_json(kafka_position.render(offsets))


def skipped(position: Position, end: Mapping[str, str]) -> tuple[tuple[Skip, ...], int]:
    """The skips of a position that is moved to `end` without landing what lies between, and how many records it is.

    Where it moves back, what had been skipped there is read again and is skipped no more.
    """
    kept: list[Skip] = []
    for skip in position.skips:
        cut = {name: _least(at, end.get(name, at)) for name, at in skip.end.items()}
        if any(_length(skip.start.get(name, NO_DATA), at) for name, at in cut.items()):
            kept.append(Skip(start=skip.start, end=cut))
    ahead = {name: _more(position.end[name], at) for name, at in end.items() if name in position.end}
    jump = Skip(
        start={name: start for name, (start, _) in ahead.items() if start != NO_DATA},
        end={name: until for name, (start, until) in ahead.items() if start != NO_DATA},
    )
    if jump.end:
        kept.append(jump)
    number = sum(_length(each.start.get(name, NO_DATA), at) for each in kept for name, at in each.end.items())
    return tuple(kept), number


def _least(one: str, other: str) -> str:
    """Partition by partition the smaller offset."""
    mine, theirs = kafka_position.parse(one), kafka_position.parse(other)
    return canonical(
        {t: {p: min(at, theirs.get(t, {}).get(p, at)) for p, at in parts.items()} for t, parts in mine.items()}
    )


def _more(start: str, end: str) -> tuple[str, str]:
    """The partitions where `end` is beyond `start`, in both; `-` where there are none."""
    low, high = kafka_position.parse(start), kafka_position.parse(end)
    places = [(t, p) for t, parts in high.items() for p, at in parts.items() if at > low.get(t, {}).get(p, at)]
    if not places:
        return NO_DATA, NO_DATA
    first: Offsets = {}
    last: Offsets = {}
    for topic, part in places:
        first.setdefault(topic, {})[part] = low[topic][part]
        last.setdefault(topic, {})[part] = high[topic][part]
    return canonical(first), canonical(last)


def _length(start: str, end: str) -> int:
    """Records between, by offsets, where `end` is beyond `start`."""
    low = kafka_position.parse(start)
    return sum(
        max(0, at - low.get(topic, {}).get(part, at))
        for topic, parts in kafka_position.parse(end).items()
        for part, at in parts.items()
    )
