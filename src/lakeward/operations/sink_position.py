"""Position of a stream in its sink, as an operation moves it. It is stored by the sink's `PositionStore`.

recover, reset and skip-batch move it by the same compare-and-set as every batch. So they fence a driver that is cut off
from the registry and still lands batches.
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
from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.connectors.iceberg.position_store import IcebergPositionStore, answering
from lakeward.connectors.iceberg.pyiceberg_schema import spark_schema
from lakeward.connectors.kafka import broker, cluster, continuity, records
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.connectors.postgres import position_store as postgres_positions
from lakeward.operations.context import Context
from lakeward.platform.errors import DependencyDown, Refused, SpecError
from lakeward.platform.runtime import Lake, Runtime
from lakeward.platform.text import count
from lakeward.spec.deploy import movable
from lakeward.spec.model.sources import KafkaSource
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.names import name_parts
from lakeward.supervision.decide.remedy import new_id

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


RECOVER = movable.RECOVER


@dataclass(frozen=True)
class SinkPosition:
    """A position that an operation may move, as it was read at one moment."""

    spec: StreamSpec
    store: PositionStore
    stored: StoredPosition

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.store.name

    @property
    def raw(self) -> str | None:
        """The stored text; None if no batch has landed."""
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
        """Store `moved` if the stored position is still the one that was read (compare-and-set).

        Raises:
            Fenced: a driver landed a batch since; nothing was changed.
        """
        return self.store.compare_and_set(self.stored, moved)


@dataclass(frozen=True)
class IcebergSinkPosition(SinkPosition):
    """The position in an Iceberg table, with the table itself, for a checkpoint import.

    Attributes:
        lake: the catalog.
        table: loaded together with the position.
    """

    lake: Catalog
    table: Table


def of(context: Context, spec: StreamSpec, what: str) -> SinkPosition:
    """Read the position that an operation moves.

    Args:
        what: the operation as a verb, e.g. `recover`, `skip a batch of`.

    Raises:
        Refused: the sink keeps no position, the stream keeps state, a source has no offsets, the table does not exist,
            or rows that the position counts as landed are missing.
        DependencyDown: the sink's system cannot be reached.
    """
    _movable(context, spec, what)
    store = store_of(context.runtime, spec)
    stored = store.read()
    if stored.halt is not None:
        halt = stored.halt
        raise Refused(f"Cannot {what} stream {spec.id}", why=f"{halt.what}: {halt.why}", next=halt.next, code="LW-2074")
    return SinkPosition(spec, store, stored)


def in_lake(context: Context, spec: StreamSpec, what: str) -> IcebergSinkPosition:
    """As `of`, for operations on Iceberg tables only.

    Raises:
        Refused: as `of`, or the sink is not an Iceberg table.
        DependencyDown: the catalog cannot be reached.
    """
    if spec.sink.postgres is not None or spec.sink.delta is not None:
        table = "PostgreSQL table" if spec.sink.postgres is not None else "Delta table"
        raise Refused(
            f"Cannot {what} stream {spec.id}",
            why=f"its sink is a {table}; Spark's own sinks keep query id and batch only in Iceberg tables",
            next="give the stream an Iceberg table as its sink, or a new table",
            code="LW-2075",
        )
    sink = of(context, spec, what)
    if not isinstance(sink.store, IcebergPositionStore):
        raise TypeError(f"the sink of stream {spec.id} is {sink.store!r}, not an Iceberg table")
    return IcebergSinkPosition(spec, sink.store, sink.stored, sink.store.catalog, sink.store.table)


def store_of(runtime: Runtime, spec: StreamSpec) -> PositionStore:
    """The position store of a stream's sink.

    Raises:
        Refused: the sink keeps no position.
        SpecError: the sink's connection is unknown here, or its location is not valid.
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
        why=f"its sink ({sink.connector}) keeps no position; only the checkpoint records the progress",
        next="restore a lost checkpoint from a copy",
        code="LW-2073",
    )


def lake_of(runtime: Runtime) -> Catalog:
    """The catalog of the lake."""
    return load_lake(runtime.lake, runtime.pgpass)


def table_of(runtime: Runtime, name: str) -> Table:
    """An Iceberg table.

    Raises:
        NoSuchTableError: it does not exist.
        DependencyDown: the catalog does not answer.
    """
    with answering():
        return lake_of(runtime).load_table(name_parts(name))


def columns(runtime: Runtime, spec: StreamSpec) -> dict[str, Any] | None:
    """The columns of the sink's table as Spark's JSON schema; None if the table does not exist or cannot be read.

    A driver compares the columns again before it starts the query.
    """
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import OperationalError

    try:
        if spec.sink.delta is not None:
            snapshot = log.read(place.folder_of(runtime.lake, str(spec.sink.delta.table)), deletion_vectors=True)
            return None if snapshot is None else json.loads(snapshot.metadata["schemaString"])
        if spec.sink.iceberg is not None:
            return spark_schema(lake_of(runtime).load_table(name_parts(spec.sink.iceberg.table)).schema())
    except (DependencyDown, NoSuchTableError, OperationalError, Refused, SpecError):
        return None
    return None


def _movable(context: Context, spec: StreamSpec, what: str) -> None:
    """Check that the position can be moved and that it alone defines where the stream continues.

    Raises:
        Refused: the sink keeps no position or moves it only with batches, a source has no offsets, or the stream keeps
            state.
    """
    found = movable.obstacle(spec, what)
    if found is None:
        return
    if found.part == "sink":
        raise Refused(f"Cannot {what} stream {spec.id}", why=found.why, next=found.next, code="LW-2076")
    if found.part == "source":
        raise Refused(f"Cannot {what} stream {spec.id}", why=found.why, next=found.next, code="LW-2077")
    why = f"{found.why}. {_cost(context, spec)}"
    raise Refused(f"Cannot {what} stream {spec.id}", why=why, next=found.next, code="LW-2078")


def _cost(context: Context, spec: StreamSpec) -> str:
    """The cost of rebuilding the state, as a sentence."""
    what = "To rebuild it, all records that the source still has are read again into a new table"
    try:
        expired = sum(
            end - first.get(topic, {}).get(part, 0)
            for _, at, topics in kafka_of(context, spec).values()
            for first in [broker.begin_offsets(at, topics)]
            for topic, parts in broker.end_offsets(at, topics).items()
            for part, end in parts.items()
        )
    except (DependencyDown, SpecError) as error:
        return f"{what}; their number is unknown: {error.what}"
    return f"{what}: {count(expired, 'record')}; expired records are missing from the state"


def kafka_of(context: Context, spec: StreamSpec) -> dict[str, tuple[KafkaSource, Cluster, list[str]]]:
    """Kafka source name -> its spec, its cluster and its topics now.

    Raises:
        DependencyDown: a broker does not answer.
    """
    connections = {}
    for name, source in spec.sources.items():
        if source.kafka is not None:
            at = cluster.find(source.kafka.connection, context.runtime)
            connections[str(name)] = (source.kafka, at, sorted(broker.topic_ids(at, source.kafka)))
    return connections


def topic_ids(context: Context, spec: StreamSpec) -> dict[str, str]:
    """Topic -> its id in the broker, over all Kafka sources."""
    ids: dict[str, str] = {}
    for kafka, at, _ in kafka_of(context, spec).values():
        ids |= broker.topic_ids(at, kafka)
    return ids


def check_topics(context: Context, sink: SinkPosition, what: str) -> None:
    """Check that the offsets of a position are those of the topics that exist now.

    Raises:
        Refused: a topic was deleted and created again: equal offsets name other records.
        DependencyDown: a broker does not answer.
    """
    known = {} if sink.position is None else sink.position.topic_ids
    continuity.check_same(sink.spec.id, f"{what} stream {sink.spec.id}", known, topic_ids(context, sink.spec))


def with_new_partitions(context: Context, spec: StreamSpec, ends: Mapping[str, str]) -> dict[str, str]:
    """The ends, completed with new partitions: a new query needs an offset for each partition.

    A new partition of a topic that the stream reads begins at offset 0: what expired there was never read. A topic that
    the position lacks begins at its first record.
    """
    whole = {str(name): ends[name] for name, source in spec.sources.items() if source.kafka is None and name in ends}
    for name, (_, at, topics) in kafka_of(context, spec).items():
        text = ends.get(name, NO_DATA)
        if text == NO_DATA:
            whole[name] = text
            continue
        known = kafka_position.parse(text)
        first = broker.begin_offsets(at, sorted({*known, *topics}))
        whole[name] = canonical(
            {
                topic: {**(dict.fromkeys(parts, 0) if topic in known else parts), **known.get(topic, {})}
                for topic in sorted({*known, *first})
                for parts in [first.get(topic, {})]
            }
        )
    return whole


def check_logs(sink: SinkPosition, lake: Lake) -> None:
    """Check that the names of all landed files are known, for every file source.

    Raises:
        Refused: the copy of the source's log beside the table does not reach the position.
    """
    ends = {} if sink.position is None else sink.position.end
    for name, source in sink.spec.sources.items():
        end = ends.get(name, NO_DATA)
        if source.files is None or end == NO_DATA:
            continue
        folder = sink.location and mirror.place(sink.location, str(sink.spec.id), str(name))
        if not folder or mirror.find(FileAccess(lake), folder, end) is None:
            raise Refused(
                f"Cannot {RECOVER} stream {sink.spec.id}",
                why=f"{folder or 'no copy of its log'} does not list the landed files of source {name} up to {end}",
                next=f"restore the checkpoint from a copy, then: lakeward streams start {sink.spec.id}; or "
                + new_id(str(sink.spec.id)),
                code="LW-2079",
            )


def records_between(
    context: Context, spec: StreamSpec, start: Mapping[str, str], end: Mapping[str, str]
) -> dict[tuple[str, int], int]:
    """The number of records from `start` to `end` (source name -> offsets), by (topic, partition).

    Offsets without a record (transaction markers, aborted and compacted records) do not count. Offsets that cannot be
    read any more, or not in time, count as records.
    """
    number: dict[tuple[str, int], int] = {}
    for name, (source, at, _) in kafka_of(context, spec).items():
        low, high = kafka_position.parse(start.get(name, NO_DATA)), kafka_position.parse(end.get(name, NO_DATA))
        number |= records.count(at, low, high, source.isolation_level)
    return number


def canonical(offsets: Offsets) -> str:
    """Offsets in the canonical form that positions use."""
    return canonical_json(kafka_position.render(offsets))


def skipped(position: Position, end: Mapping[str, str]) -> tuple[tuple[Skip, ...], int]:
    """The skips of a position that moves to `end` without landing the records between, and their number of records.

    Where the position moves back, earlier skips are read again and no longer count as skipped.
    """
    skips: list[Skip] = []
    for skip in position.skips:
        cut = {name: _least(at, end.get(name, at)) for name, at in skip.end.items()}
        if any(_length(skip.start.get(name, NO_DATA), at) for name, at in cut.items()):
            skips.append(Skip(start=skip.start, end=cut))
    ahead = {name: _more(position.end[name], at) for name, at in end.items() if name in position.end}
    jump = Skip(
        start={name: start for name, (start, _) in ahead.items() if start != NO_DATA},
        end={name: until for name, (start, until) in ahead.items() if start != NO_DATA},
    )
    if jump.end:
        skips.append(jump)
    number = sum(_length(skip.start.get(name, NO_DATA), at) for skip in skips for name, at in skip.end.items())
    return tuple(skips), number


def _least(one: str, other: str) -> str:
    """The smaller offset of each partition."""
    first, second = kafka_position.parse(one), kafka_position.parse(other)
    return canonical(
        {t: {p: min(at, second.get(t, {}).get(p, at)) for p, at in parts.items()} for t, parts in first.items()}
    )


def _more(start: str, end: str) -> tuple[str, str]:
    """The partitions where `end` is beyond `start`, as two offsets; `-` if there are none."""
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
    """Number of records by offsets where `end` is beyond `start`."""
    low = kafka_position.parse(start)
    return sum(
        max(0, at - low.get(topic, {}).get(part, at))
        for topic, parts in kafka_position.parse(end).items()
        for part, at in parts.items()
    )
