"""`streams audit`: compare the landed rows of a stream with the records of its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NotRequired, TypedDict

from lakeward.connectors.commit_protocol import erased
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, Totals, key, parse
from lakeward.connectors.commit_protocol.replay import Replay, of
from lakeward.connectors.files.log import count_of
from lakeward.connectors.iceberg.source.position import snapshot_of
from lakeward.connectors.kafka.position import parse as parse_offsets
from lakeward.connectors.kinesis import shard_offsets
from lakeward.platform.boundary import worded
from lakeward.platform.errors import Refused, Transient, Unhealthy
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import word
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.names import name_parts
from lakeward.supervision.report.late import NONE, LateRecords

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from lakeward.connectors.commit_protocol.audit import Scan

_ATTEMPTS = 5


AuditPartition = TypedDict(
    "AuditPartition",
    {
        "source": str,
        "partition": str,
        "from": int | str | None,
        "to": int | str,
        "missing": int | None,
        "duplicates": int | None,
        "skipped": NotRequired[int],
        "gaps": NotRequired[list[list[int]]],
    },
)
"""The range of one partition; `missing` and `duplicates` are None where rows cannot be traced to records."""


class AuditDocument(TypedDict):
    """The JSON of `streams audit`. `erased`, `holes`, `unverified` and `beyond` are present where rows can be traced to
    records.

    `holes`: offsets without a record. `unverified`: offsets in no table that the source no longer has.
    """

    stream: str
    sink: str
    lineage: str
    consumed: int
    landed: int
    quarantined: int
    filtered: int
    erased: NotRequired[int]
    holes: NotRequired[int]
    unverified: NotRequired[int]
    skipped: int
    late_dropped: int
    late_kept: int
    late_tables: list[str]
    missing: int | None
    duplicates: int | None
    beyond: NotRequired[int]
    partitions: list[AuditPartition]


def audit(runtime: Runtime, spec: StreamSpec, dropped: LateRecords = NONE, kept: LateRecords = NONE) -> AuditDocument:
    """The audit of one stream, in words where a table or a file of it cannot be read.

    Raises:
        Unhealthy: the stream's table, its position, or a file that the table names is missing or damaged.
        Refused: the sink keeps nothing to audit.
    """
    table = spec.sink.label
    restore = f"; or of a data file: lakeward tables restore {word(table)} --to SNAPSHOT --dry-run"
    return worded(
        f"the rows of stream {spec.id} in {table}",
        lambda: _audit(runtime, spec, dropped, kept),
        next=f"bring back what is named{'' if spec.sink.postgres else restore}",
    )


def _audit(runtime: Runtime, spec: StreamSpec, dropped: LateRecords, kept: LateRecords) -> AuditDocument:
    """The audit of one stream, with the fields of the contract.

    `dropped` and `kept`: its late records.

    Sinks without a position in a table and streams whose rows are many records (lineage `none`) cannot be counted by
    position: `missing` and `duplicates` are None for them.

    Raises:
        Unhealthy: the stream's table or its position is missing.
        Refused: the sink keeps nothing to audit.
    """
    if spec.sink.rows_in is None:
        raise Refused(
            f"Cannot audit stream {spec.id}",
            why=f"its sink {spec.sink.label} keeps no position: delivery is at least once, so readers must deduplicate"
            if spec.sink.files is None
            else "its batches land exactly once in a folder, and no command compares the files there record by record",
            next=f"lakeward streams status {spec.id}",
            code="LW-1226",
        )
    from lakeward.connectors.commit_protocol.audit import audit as count
    from lakeward.connectors.iceberg.catalog import load_lake
    from lakeward.connectors.kafka.audit_lookup import TopicLookup

    catalog = load_lake(runtime.lake, runtime.pgpass)
    replayed = Replay()
    if spec.sink.postgres:
        (position, landed), (quarantined, removed) = _postgres(runtime, spec), _quarantined(catalog, spec, replayed)
    elif spec.sink.delta:
        (position, landed), (quarantined, removed) = _delta(runtime, spec), _quarantined(catalog, spec, replayed)
    else:
        position, landed, replayed, quarantined, removed = _iceberg(catalog, spec)
    totals = _totals(position, replayed)
    position = position.model_copy(update={"totals": totals})
    holes = any(source.kinesis is not None for source in spec.sources.values())  # sequence numbers are not consecutive
    if spec.lineage != "rows" or holes:
        return {
            "stream": str(spec.id),
            "sink": spec.sink.label,
            "lineage": spec.lineage or "none",
            "consumed": totals.consumed,
            "landed": totals.landed,
            "quarantined": totals.quarantined,
            "filtered": totals.filtered,
            "skipped": totals.skipped,
            "late_dropped": dropped.records,
            "late_kept": kept.records,
            "late_tables": list(kept.tables),
            "missing": None,
            "duplicates": None,
            "partitions": _ranges(position, spec),
        }
    lookup = TopicLookup(runtime, {str(name): source for name, source in spec.sources.items()}, position)
    result = count(landed, str(spec.id), position, quarantined, erased=removed, lookup=lookup)
    return {
        "stream": str(spec.id),
        "sink": spec.sink.label,
        "lineage": spec.lineage,
        "consumed": result.consumed,
        "landed": result.landed,
        "quarantined": result.quarantined,
        "filtered": result.filtered,
        "erased": result.erased,
        "holes": result.holes,
        "unverified": result.unverified,
        "skipped": result.skipped,
        "late_dropped": dropped.records,
        "late_kept": kept.records,
        "late_tables": list(kept.tables),
        "missing": result.missing,
        "duplicates": result.duplicates,
        "beyond": result.beyond,
        "partitions": [
            {
                "source": part.source,
                "partition": part.partition,
                "from": part.from_,
                "to": part.to,
                "missing": part.missing,
                "duplicates": part.duplicates,
                "skipped": part.skipped,
                "gaps": [list(gap) for gap in part.gaps],
            }
            for part in result.partitions
        ],
    }


def for_people(document: AuditDocument, late: str) -> dict[str, object]:
    """The document as people read it: one line about late records, in words, in place of their counts."""
    shown: dict[str, object] = {}
    for name, value in document.items():
        if name == "late_dropped":
            shown["late"] = late
        elif name not in ("late_kept", "late_tables"):
            shown[name] = value
    return shown


def _iceberg(catalog: Catalog, spec: StreamSpec) -> tuple[Position, Scan, Replay, Scan | None, int]:
    """Position and rows of an Iceberg table from one load, its quarantined rows, and the number of erased rows of both.

    A replay moves records from quarantine to the table; if it ran between reading the two, rows would be missed. So the
    table is read before and after.
    """
    from pyiceberg.exceptions import NoSuchTableError

    from lakeward.connectors.iceberg import paths_only
    from lakeward.connectors.iceberg.audit import scan

    for _ in range(_ATTEMPTS):
        try:
            table = paths_only.readable(catalog, name_parts(spec.sink.label))
        except NoSuchTableError:
            raise _nothing(spec, f"the table {spec.sink.label} does not exist") from None
        newest = of(table.properties, str(spec.id), spec.sink.label)
        quarantined, removed = _quarantined(catalog, spec, newest)
        removed += erased.of(table.properties, str(spec.id), spec.sink.label)
        if of(catalog.load_table(name_parts(spec.sink.label)).properties, str(spec.id), spec.sink.label) == newest:
            return _position(table.properties, spec), scan(table), newest, quarantined, removed
    raise Transient(
        f"Cannot audit stream {spec.id} now",
        why="its quarantine is being replayed",
        next=f"lakeward streams audit {spec.id}   after the replay",
        code="LW-1224",
    )


def _quarantined(catalog: Catalog, spec: StreamSpec, newest: Replay) -> tuple[Scan | None, int]:
    """The quarantined rows, None while the table does not exist (the first start creates it), and the number of rows
    erased from it."""
    from pyiceberg.exceptions import NoSuchTableError

    from lakeward.connectors.iceberg import paths_only
    from lakeward.connectors.iceberg.audit import pending_quarantine

    if spec.quarantine is None:
        return None, 0
    name = str(spec.quarantine.table)
    try:
        table = paths_only.readable(catalog, name_parts(name))
    except NoSuchTableError:
        return None, 0
    return pending_quarantine(table, newest.done), erased.of(table.properties, str(spec.id), name)


def _totals(position: Position, replayed: Replay) -> Totals:
    """The position's totals, corrected by replays of quarantined records."""
    later = replayed.totals
    return position.totals.plus(
        Totals(landed=later.landed, filtered=later.filtered, quarantined=-later.landed - later.filtered)
    )


def _delta(runtime: Runtime, spec: StreamSpec) -> tuple[Position, Scan]:
    """Position and rows of a Delta table, from one reading of its log."""
    from lakeward.connectors.delta import location, log

    table = log.read(location.folder_of(runtime.lake, spec.sink.label), deletion_vectors=True)
    if table is None:
        raise _nothing(spec, f"the table {spec.sink.label} does not exist")
    return _position(table.domains, spec), log.scan(table)


def _postgres(runtime: Runtime, spec: StreamSpec) -> tuple[Position, Scan]:
    """Position and rows of a PostgreSQL table; the rows are read later and may exceed the position's count."""
    from lakeward.connectors.postgres.position_store import of

    store = of(runtime, spec)
    state = store.state()
    if state.oid is None:
        raise _nothing(spec, f"the table {store.table.text} does not exist")
    if state.position is None:
        raise _nothing(spec, f"{store.table.positions.text} has no position of the stream")
    return state.position, store.scan()


def _position(properties: Mapping[str, str], spec: StreamSpec) -> Position:
    text = properties.get(key(spec.id))
    if text is None:
        raise _nothing(spec, f"{spec.sink.label} has no position of the stream")
    return parse(text, spec.id, spec.sink.label)


def _nothing(spec: StreamSpec, why: str) -> Unhealthy:
    return Unhealthy(
        f"Stream {spec.id} has landed nothing yet", why=why, next=f"lakeward streams status {spec.id}", code="LW-1225"
    )


def _ranges(position: Position, spec: StreamSpec) -> list[AuditPartition]:
    """The contiguous range of each partition: the only proof if a row is made of several records."""
    parts: list[AuditPartition] = []
    read = {str(name): source_spec for name, source_spec in spec.sources.items()}
    for source, end in sorted(position.end.items()):
        if source in read and read[source].kinesis is not None:
            begun = shard_offsets.ranges(
                shard_offsets.parse(position.begin.get(source, NO_DATA)), shard_offsets.parse(end)
            )
            parts += [_untraced(source, shard, first.where, last.where) for shard, (first, last) in begun.items()]
            continue
        files = count_of(end)
        if files is not None:
            first_files = count_of(position.begin.get(source, NO_DATA)) or 0
            parts.append(_untraced(source, "files", first_files, files))
            continue
        if (snapshot := snapshot_of(end)) is not None:
            parts.append(_untraced(source, "snapshot", snapshot_of(position.begin.get(source, "")), snapshot))
            continue
        try:
            first, last = parse_offsets(position.begin.get(source, NO_DATA)), parse_offsets(end)
        except (ValueError, AttributeError, TypeError):  # a source that only Spark can parse
            parts.append(_untraced(source, "offset", position.begin.get(source, NO_DATA), end))
            continue
        for topic, offsets in sorted(last.items()):
            for number, to in sorted(offsets.items()):
                parts.append(_untraced(source, f"{topic}/{number}", first.get(topic, {}).get(number, 0), to))
    return parts


def _untraced(source: str, partition: str, first: int | str | None, to: int | str) -> AuditPartition:
    return {"source": source, "partition": partition, "from": first, "to": to, "missing": None, "duplicates": None}
