"""Checks across the specs of a project."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any, Literal

from lakeward.spec.checks.catalogs import flat_name
from lakeward.spec.checks.lints import MEASURED
from lakeward.spec.checks.sources import feeding, takers
from lakeward.spec.model.settings import MAINTENANCE, Settings
from lakeward.spec.model.sinks import ConsoleSink, KafkaSink, Sink
from lakeward.spec.model.sources import KafkaSource
from lakeward.spec.model.stream import Resources, StreamSpec
from lakeward.spec.model.tables import Tables, matches
from lakeward.spec.model.types import DriverName
from lakeward.spec.read.document import Path_
from lakeward.spec.sql.names import catalog_in, dotted, name_parts

_OF_A_SINK = ("table", "topic", "connection", "mode", "partition_by")
"""Keys by which streams with the same sink are compared."""
FEWEST_BATCHES = 20
"""Fewer batches do not show how long a batch takes."""


@dataclass(frozen=True)
class ProjectFinding:
    """A problem between files. `owner` names the file where it is reported: a stream's id, or the name of a settings
    file."""

    owner: str
    path: Path_
    message: str
    value: str | None = None
    severity: Literal["error", "warning"] = "error"
    key: bool = False


def comparable(spec: StreamSpec, doubtful: Collection[Path_]) -> StreamSpec:
    """The spec without the parts that contain mistakes and cannot be compared with other streams."""
    update: dict[str, Any] = {}
    if any(path[:1] == ("sink",) and (len(path) < 3 or path[2] in _OF_A_SINK) for path in doubtful):
        update["sink"] = Sink(console=ConsoleSink())
    for kept in ("quarantine", "late"):
        if any(path[:1] == (kept,) for path in doubtful):
            update[kept] = None
    if any(path[:1] == ("resources",) for path in doubtful):
        update["resources"] = Resources(driver=DriverName(f"unknown-{spec.id}"[:63]))
    return spec.model_copy(update=update)


def stream_findings(streams: Sequence[StreamSpec], drivers: Collection[str] | None) -> Iterator[ProjectFinding]:
    """Streams that conflict. `drivers`: those declared in conf/lakeward.yaml; None if unknown."""
    yield from _writers(streams)
    yield from _topics(streams)
    yield from _folders(streams)
    yield from _taken_files(streams)
    yield from _fed(streams)
    if drivers is not None:
        yield from _drivers(streams, drivers)


def _writers(streams: Sequence[StreamSpec]) -> Iterator[ProjectFinding]:
    writers: dict[str, list[StreamSpec]] = defaultdict(list)
    for spec in streams:
        if spec.sink.rows_in:
            writers[spec.sink.rows_in].append(spec)
    for table, specs in writers.items():
        for spec in specs:
            others = [other for other in specs if other is not spec]
            at: Path_ = ("sink", spec.sink.connector)
            if others and spec.sink.mode != "append":
                names = ", ".join(other.id for other in others)
                yield ProjectFinding(
                    spec.id,
                    (*at, "mode"),
                    f"{names} writes {table} too: a table has one writer that changes rows, or any number that append",
                    spec.sink.mode,
                )
        first, *rest = specs
        for spec in rest:
            if spec.sink.connector != first.sink.connector:
                yield ProjectFinding(
                    spec.id,
                    ("sink", spec.sink.connector, "table"),
                    f"{first.id} makes {table} as {first.sink.connector}: a table has one format",
                    table,
                )
                continue
            if spec.sink.options != first.sink.options and _shape(spec) != _shape(first):
                yield ProjectFinding(
                    spec.id,
                    ("sink", spec.sink.connector, "partition_by"),
                    f"{first.id} creates {table} with another partitioning: {_partitioning(first)}",
                    _partitioning(spec),
                )
    delta: dict[str, StreamSpec] = {}
    for spec in streams:
        if spec.sink.delta is None:
            continue
        alike = delta.setdefault(spec.sink.delta.table.lower(), spec)
        if alike.sink.delta and alike.sink.delta.table != spec.sink.delta.table:
            message = (
                f"{alike.id} makes {alike.sink.delta.table}: Spark does not tell names of Delta tables apart by case, "
                "and would take the one for the other"
            )
            yield ProjectFinding(spec.id, ("sink", "delta", "table"), message, spec.sink.delta.table)
    for spec in streams:
        if spec.quarantine and spec.quarantine.table in writers:
            other = writers[spec.quarantine.table][0].id
            message = f"stream {other} lands its rows in this table; quarantine needs a separate table"
            yield ProjectFinding(spec.id, ("quarantine", "table"), message, spec.quarantine.table)
    quarantines = {spec.quarantine.table: spec for spec in streams if spec.quarantine}
    for spec in streams:
        if spec.late is None:
            continue
        landing, refused = next(iter(writers.get(spec.late.table, ())), None), quarantines.get(spec.late.table)
        if landing is not None:
            message = f"stream {landing.id} lands its rows in this table; late records need a separate table"
            yield ProjectFinding(spec.id, ("late", "table"), message, spec.late.table)
        elif refused is not None:
            # A replay of the quarantine would land them, and the audit would count them twice.
            message = f"it is the quarantine of stream {refused.id}; late records need a separate table"
            yield ProjectFinding(spec.id, ("late", "table"), message, spec.late.table)


def _shape(spec: StreamSpec) -> tuple[str, ...]:
    if spec.sink.delta:
        return tuple(spec.sink.delta.partition_by)
    return tuple(field.sql for field in spec.sink.iceberg.partition_by) if spec.sink.iceberg else ()


def _partitioning(spec: StreamSpec) -> str:
    lake = spec.sink.iceberg or spec.sink.delta
    return ", ".join(lake.partition_by if lake else ()) or "none"


def _topics(streams: Sequence[StreamSpec]) -> Iterator[ProjectFinding]:
    writers: dict[tuple[str, str], str] = {}
    for spec in streams:
        if not spec.sink.kafka:
            continue
        topic = (spec.sink.kafka.connection, spec.sink.kafka.topic)
        if topic in writers:
            message = f"stream {writers[topic]} writes this topic too; readers cannot distinguish the two"
            yield ProjectFinding(spec.id, ("sink", "kafka", "topic"), message, topic[1], severity="warning")
        writers.setdefault(topic, spec.id)


def unknown_connections(streams: Sequence[StreamSpec], known: Collection[str]) -> Iterator[ProjectFinding]:
    """Kafka connections unknown on this machine. Airflow may know them: its connections arrive with its next task."""
    listed = ", ".join(sorted(known)) or "none"
    for spec in streams:
        ends: list[tuple[tuple[str, ...], KafkaSource | KafkaSink | None]] = [(("sink",), spec.sink.kafka)]
        ends += [(("sources", str(name)), source.kafka) for name, source in spec.sources.items()]
        for at, kafka in ends:
            if kafka is not None and kafka.connection not in known:
                message = (
                    f"there is no Kafka connection {kafka.connection} here; known: {listed}; "
                    "unless Airflow has it, create it (docs/how-to/connect-to-kafka.md)"
                )
                yield ProjectFinding(spec.id, (*at, "kafka", "connection"), message, str(kafka.connection), "warning")


def slow_commits(streams: Sequence[StreamSpec], durations: Mapping[str, Sequence[float]]) -> Iterator[ProjectFinding]:
    """Streams whose batches took longer than their trigger.

    Args:
        durations: stream -> seconds of its newest batches, from a registry.
    """
    for spec in streams:
        took, every = sorted(durations.get(spec.id, ())), spec.trigger.every
        if every is None or len(took) < FEWEST_BATCHES:
            continue
        p95 = took[math.ceil(0.95 * len(took)) - 1]
        if p95 > every.seconds:
            words = f"95 of 100 of its last {len(took)} batches took up to {p95:.1f} s"
            message = f"{words}: {MEASURED.why}; {MEASURED.remedy}"
            yield ProjectFinding(spec.id, ("trigger", "every"), message, str(every), "warning")


def _folders(streams: Sequence[StreamSpec]) -> Iterator[ProjectFinding]:
    writers: dict[PurePosixPath, str] = {}
    for spec in streams:
        if not spec.sink.files:
            continue
        path = PurePosixPath(normpath(spec.sink.files.path))
        for other, name in writers.items():
            if path.is_relative_to(other) or other.is_relative_to(path):
                message = f"stream {name} writes {other}: a folder has one stream, and none has another's inside it"
                yield ProjectFinding(spec.id, ("sink", "files", "path"), message, str(path))
        writers[path] = str(spec.id)


def _taken_files(streams: Sequence[StreamSpec]) -> Iterator[ProjectFinding]:
    for (spec, name, files), (other, other_name, _) in takers(streams):
        who = f"source {other_name} of this stream" if other is spec else f"stream {other.id}"
        message = f"{who} reads there too, and files would be moved before it has landed them; write after: keep"
        yield ProjectFinding(spec.id, ("sources", name, "files", "after"), message, files.after)


def _fed(streams: Sequence[StreamSpec]) -> Iterator[ProjectFinding]:
    for spec, name, why in feeding(streams):
        source = spec.sources[name]  # type: ignore[index]  # names of sources are text
        yield ProjectFinding(spec.id, ("sources", name, source.connector, "table"), why, source.from_table)


def _drivers(streams: Sequence[StreamSpec], drivers: Collection[str]) -> Iterator[ProjectFinding]:
    sizes: dict[str, StreamSpec] = {}
    brought: dict[str, StreamSpec] = {}
    for spec in streams:
        others = [other.id for other in streams if other is not spec and other.driver == spec.driver]
        if spec.trigger.unbatched and others:
            message = (
                f"{spec.trigger.kind} holds a core of its driver for each partition, for ever, and driver "
                f"{spec.driver} has {', '.join(others)} too; give the stream a driver of its own: leave driver: out"
            )
            yield ProjectFinding(spec.id, ("resources", "driver"), message, spec.driver)
        size = (spec.resources.cores, spec.resources.driver_memory)
        declared = spec.driver in drivers
        for key, value in (("cores", size[0]), ("driver_memory", size[1])):
            if declared and value is not None:
                message = f"driver {spec.driver} is declared in conf/lakeward.yaml; set its {key} there"
                yield ProjectFinding(spec.id, ("resources", key), message, str(value))
        if spec.packages:
            other = brought.setdefault(spec.driver, spec)
            if other.packages != spec.packages:
                message = (
                    f"stream {other.id} shares driver {spec.driver} and needs other packages: one process imports one "
                    f"version; give one of them a driver of its own, or both the same file"
                )
                yield ProjectFinding(spec.id, ("requirements",), message, spec.requirements)
        first = sizes.setdefault(spec.driver, spec)
        if not declared and size != (first.resources.cores, first.resources.driver_memory):
            message = (
                f"stream {first.id} shares driver {spec.driver} and gives it another size; "
                f"declare the driver once, under drivers: in conf/lakeward.yaml"
            )
            yield ProjectFinding(spec.id, ("resources",), message)


def name_findings(streams: Sequence[StreamSpec], settings: Settings) -> Iterator[ProjectFinding]:
    """Tables whose names a Hive Metastore or Glue cannot have."""
    for spec in streams:
        sink = spec.sink.iceberg
        further = None if sink is None else catalog_in(sink.table, settings.others)
        catalog = settings.lake if further is None else settings.others[further]
        if sink is None or catalog is None:
            continue
        if why := flat_name(sink.table if further is None else dotted(name_parts(sink.table)[1:]), catalog.type):
            yield ProjectFinding(spec.id, ("sink", "iceberg", "table"), why, sink.table)


def unused_findings(streams: Sequence[StreamSpec], settings: Settings, tables: Tables) -> Iterator[ProjectFinding]:
    """Drivers without streams, and policies of tables that no stream writes: often a renamed stream or table."""
    landed = {table for spec in streams for table in spec.tables}
    used = {spec.driver for spec in streams}
    for name in settings.drivers if streams else ():
        if name not in used and name != MAINTENANCE:
            yield ProjectFinding("lakeward.yaml", ("drivers", name), f"no stream here runs in driver {name}", str(name),
                               "warning", key=True)  # fmt: skip
    for section in ("policies", "unsafe"):
        for index, rule in enumerate(getattr(tables, section) if landed else ()):
            if not any(matches(rule, table) for table in landed):
                yield ProjectFinding("tables.yaml", (section, index, "match"), "no stream writes a table like this",
                                   str(rule.match), "warning")  # fmt: skip
