"""May an operation move a stream's position, and to where? The position itself is in the sink's `PositionStore`.

recover, reset and skip-batch move it by the same compare-and-set as every batch, so a driver that is cut off from the
registry and still lands the stream is fenced by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, Skip
from lakeward.connectors.commit_protocol.position_store import PositionStore, StoredPosition
from lakeward.connectors.delta import location as place
from lakeward.connectors.delta import log
from lakeward.connectors.delta.position_store import DeltaPositionStore
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import mirror
from lakeward.connectors.folder.position_store import FolderPositionStore
from lakeward.connectors.iceberg import catalog
from lakeward.connectors.iceberg.position_store import IcebergPositionStore, answering
from lakeward.connectors.iceberg.pyiceberg_schema import spark_schema
from lakeward.connectors.kafka import broker, cluster
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.connectors.postgres import position_store as postgres_positions
from lakeward.operations.context import Context
from lakeward.platform.errors import DependencyDown, Refused, SpecError
from lakeward.platform.runtime import CATALOG, Lake, Runtime
from lakeward.platform.text import count
from lakeward.spec.deploy.plan import keeps_state
from lakeward.spec.model.sources import KafkaSource
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


RECOVER = "recover"
_MOVABLE = frozenset({"iceberg", "delta", "postgres"})
"""Sinks whose position is moved without a batch."""


@dataclass(frozen=True)
class SinkPosition:
    """A position that may be moved, as it was read at one moment."""

    spec: StreamSpec
    store: PositionStore
    stored: StoredPosition

    @property
    def name(self) -> str:
        """The table."""
        return self.store.name

    @property
    def raw(self) -> str | None:
        """The stored text; None: nothing landed yet."""
        return self.stored.raw

    @property
    def position(self) -> Position | None:
        """`raw`, parsed."""
        return self.stored.position

    @property
    def rows(self) -> Scan:
        """Reads the rows' positions in the source."""
        return self.store.scan()

    @property
    def location(self) -> str | None:
        """The table's folder; None where it has none."""
        return self.store.location

    def write(self, moved: Position) -> Position:
        """Store `moved`, if the position is still the one that was read.

        Raises:
            Fenced: a driver landed a batch meanwhile; nothing was changed.
        """
        return self.store.compare_and_set(self.stored, moved)


@dataclass(frozen=True)
class IcebergSinkPosition(SinkPosition):
    """The same in an Iceberg table, which an import looks at more closely.

    Attributes:
        lake: the catalog.
        table: as it was loaded next to the position.
    """

    lake: Catalog
    table: Table


def of(context: Context, spec: StreamSpec, what: str) -> SinkPosition:
    """The position that an operation moves.

    Args:
        what: the operation as a verb, e.g. `recover`, `skip a batch of`.

    Raises:
        Refused: the sink keeps no position, the stream keeps state, a source has no offsets, there is no table, or rows
            that the position calls landed are gone.
        DependencyDown: the system of the sink cannot be reached.
    """
    _movable(context, spec, what)
    store = store_of(context.runtime, spec)
    stored = store.read()
    if stored.halt is not None:
        halt = stored.halt
        raise Refused(f"Cannot {what} stream {spec.id}", why=f"{halt.what}: {halt.why}", next=halt.next, code="LW-2074")
    return SinkPosition(spec, store, stored)


def in_lake(context: Context, spec: StreamSpec, what: str) -> IcebergSinkPosition:
    """As `of`, for what is done to Iceberg tables alone.

    Raises:
        Refused: as `of`, and for every other sink.
        DependencyDown: the catalog cannot be reached.
    """
    if spec.sink.postgres is not None or spec.sink.delta is not None:
        table = "table of PostgreSQL" if spec.sink.postgres is not None else "Delta table"
        raise Refused(
            f"Cannot {what} stream {spec.id}",
            why=f"its sink is a {table}, which no other query of Spark keeps a position in",
            next="land into a new table",
            code="LW-2075",
        )
    found = of(context, spec, what)
    if not isinstance(found.store, IcebergPositionStore):
        raise TypeError(f"the sink of stream {spec.id} is {found.store!r}, not an Iceberg table")
    return IcebergSinkPosition(spec, found.store, found.stored, found.store.catalog, found.store.table)


def store_of(runtime: Runtime, spec: StreamSpec) -> PositionStore:
    """Where the sink of a stream keeps the position.

    Raises:
        Refused: it keeps none.
        SpecError: this deployment does not know the sink's connection, or the sink cannot be where it is declared.
        DependencyDown: the catalog cannot be reached.
    """
    sink, stream = spec.sink, str(spec.id)
    if sink.iceberg is not None and sink.iceberg.commit == "exact":
        with answering():
            return IcebergPositionStore(lake_of(runtime), str(sink.iceberg.table), stream)
    if sink.delta is not None:
        table = str(sink.delta.table)
        return DeltaPositionStore(place.folder_of(runtime.lake, table), table, stream)
    if sink.postgres is not None:
        return postgres_positions.of(runtime, spec)
    if sink.files is not None:
        return FolderPositionStore(Path(str(sink.files.path)), stream)
    raise Refused(
        f"Stream {stream} has no position in its sink",
        why=f"its sink ({sink.connector}) keeps no position: only the checkpoint knows how far it is",
        next="put a lost checkpoint back from a copy",
        code="LW-2073",
    )


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


def _movable(context: Context, spec: StreamSpec, what: str) -> None:
    """The sink's position can be moved, it says where to go on, and nothing but the position has to be moved.

    Raises:
        Refused: the sink keeps no position or moves it by batches alone, a source has no offsets, or the stream keeps
            state.
    """
    native = spec.sink.iceberg is not None and spec.sink.iceberg.commit != "exact"
    if spec.sink.connector not in _MOVABLE or native:
        raise Refused(
            f"Cannot {what} stream {spec.id}",
            why="the position in its folder is moved by its batches alone"
            if spec.sink.files is not None
            else f"its sink ({spec.sink.connector}) keeps no position: only the checkpoint knows how far it is",
            next="put a lost checkpoint back from a copy; a record that cannot be worked on is for the transform: "
            f"change it, lakeward deploy, lakeward streams upgrade {spec.id}",
            code="LW-2076",
        )
    readable = {"kafka", "files", "iceberg", "delta", "kinesis"} if what == RECOVER else {"kafka"}
    other = [str(name) for name, source in spec.sources.items() if source.connector not in readable]
    if other:
        raise Refused(
            f"Cannot {what} stream {spec.id}",
            why=f"the position does not say where to go on in {', '.join(other)}: only Kafka's offsets say that",
            next="put the checkpoint back from a copy",
            code="LW-2077",
        )
    remembers = [str(name) for name, source in spec.sources.items() if source.deduplicate]
    if remembers or not _goes_through(spec):
        state = "its transform keeps state (windows, aggregates) or makes other rows than it reads"
        if remembers:
            state = f"it remembers the keys of {', '.join(remembers)}: without them a duplicate would land"
        raise Refused(
            f"Cannot {what} stream {spec.id}",
            why=f"{state}, and state belongs to its checkpoint. {_cost(context, spec)}",
            next="put the checkpoint back from a copy, or land into a new table under a new id",
            code="LW-2078",
        )


def _goes_through(spec: StreamSpec) -> bool:
    """Whether each record goes through by itself. Rows of files and of tables have no lineage; their SQL tells."""
    untraced = any(source.files or source.from_table for source in spec.sources.values())
    return spec.lineage == "rows" or (untraced and spec.transform.sql is not None and not keeps_state(spec))


def _cost(context: Context, spec: StreamSpec) -> str:
    """What building the state anew would mean."""
    what = "To build it anew, everything the source still has is read again into a new table"
    try:
        left = sum(
            end - first.get(topic, {}).get(part, 0)
            for _, at, topics in kafka_of(context, spec).values()
            for first in [broker.begin_offsets(at, topics)]
            for topic, parts in broker.end_offsets(at, topics).items()
            for part, end in parts.items()
        )
    except (DependencyDown, SpecError) as error:
        return f"{what}; how much that is could not be asked: {error.what}"
    return f"{what}: {count(left, 'record')}, and what it no longer has is lost to the state"


def kafka_of(context: Context, spec: StreamSpec) -> dict[str, tuple[KafkaSource, Cluster, list[str]]]:
    """Source name -> its spec, its cluster and its topics now.

    Raises:
        DependencyDown: a broker does not answer.
    """
    found = {}
    for name, source in spec.sources.items():
        if source.kafka is not None:
            at = cluster.find(source.kafka.connection, context.runtime)
            found[str(name)] = (source.kafka, at, sorted(broker.topic_ids(at, source.kafka)))
    return found


def topic_ids(context: Context, spec: StreamSpec) -> dict[str, str]:
    """Topic -> its id in the broker, of all sources."""
    found: dict[str, str] = {}
    for kafka, at, _ in kafka_of(context, spec).values():
        found |= broker.topic_ids(at, kafka)
    return found


def with_new_partitions(context: Context, spec: StreamSpec, ends: Mapping[str, str]) -> dict[str, str]:
    """The ends, and the beginning of partitions that appeared since: a new query must be told of each."""
    whole = {str(name): ends[name] for name, each in spec.sources.items() if each.kafka is None and name in ends}
    for name, (_, at, topics) in kafka_of(context, spec).items():
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


def check_logs(found: SinkPosition, lake: Lake) -> None:
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
                f"Cannot {RECOVER} stream {found.spec.id}",
                why=f"which files of source {name} have landed is not in {folder or 'any copy of its log'}: {end}",
                next="put the checkpoint back from a copy, or land into a new table under a new id",
                code="LW-2079",
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
