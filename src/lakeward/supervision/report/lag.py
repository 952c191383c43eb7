"""Stream lag, measured from outside: the source's end offsets minus the landed position.

Spark's own figures stop with the query; these are available when nothing runs. The lag of a stream with several sources
is known if each of them was measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.kafka.arrived import arrived, written
from lakeward.connectors.kafka.broker import TIMEOUT_S, begin_offsets, end_offsets, existing_ids, retentions, written_at
from lakeward.connectors.kafka.cluster import Cluster, find
from lakeward.connectors.kafka.position import CREATED_AGAIN, REPLACED, Offsets, parse, replaced
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.registry.observations import Watch, WatchedPartition
from lakeward.spec.model.sources import Isolation, KafkaSource
from lakeward.spec.model.table_source import DeltaSource, IcebergSource
from lakeward.telemetry.mask import mask

if TYPE_CHECKING:
    from confluent_kafka import Consumer

WINDOW_S = 60.0
"""The window in which the arrival rate of the source is measured."""


@dataclass(frozen=True)
class Partition:
    """One partition of a source.

    Attributes:
        position: the landed position; None before the first batch.
        end: the offset of the next record.
        begin: the first offset that the source still has; None if it was not read.
        held: offsets after `end` that cannot be read before an open transaction ends.
    """

    source: str
    topic: str
    partition: int
    position: int | None
    end: int
    begin: int | None = None
    held: int = 0

    @property
    def lag(self) -> int:
        """Number of waiting records (offsets)."""
        return max(0, self.end - max(self.position or 0, self.begin or 0))

    @property
    def expired(self) -> int:
        """Number of offsets that expired at the source before they landed: lost unless another copy exists."""
        if self.position is None or self.begin is None:
            return 0
        return max(0, self.begin - self.position)

    def document(self) -> WatchedPartition:
        """The form of `streams status -o json`."""
        return {
            "source": self.source,
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "end": self.end,
            "lag_records": self.lag,
            "held_records": self.held,
        }


@dataclass(frozen=True)
class Lag:
    """The lag of a stream.

    Attributes:
        partitions: every partition of every topic of the sources that were measured.
        oldest_s: age of the oldest waiting record, in seconds; 0 if nothing waits, None if it is not known.
        arriving_per_second: records that arrived in the last minute, per second.
        retention_s: shortest retention of the topics; None if it is unlimited.
        per_second: slope of the lag as the driver measured it, in records; None without a measurement.
        age_s: age of the figures; 0 if the source was read just now.
        held_s: age of the oldest record behind an open transaction; None without one, or if it is not known.
        unmeasured: the other sources -> why they were not measured. The figures above are then a part of the lag.
    """

    partitions: tuple[Partition, ...] = field(default_factory=tuple)
    oldest_s: float | None = None
    arriving_per_second: float | None = None
    retention_s: float | None = None
    per_second: float | None = None
    age_s: float = 0.0
    held_s: float | None = None
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def records(self) -> int | None:
        """Number of waiting records; None if a source was not measured."""
        return None if self.unmeasured else self.at_least

    @property
    def at_least(self) -> int:
        """Number of waiting records of the sources that were measured."""
        return sum(item.lag for item in self.partitions)

    @property
    def waited_s(self) -> float | None:
        """Age of the oldest waiting record; 0 if nothing waits, None if not known, or if a source was not measured."""
        return None if self.unmeasured else self.oldest_s

    @property
    def unknown(self) -> str | None:
        """Why the lag is not known; None if it is."""
        return "; ".join(mask(f"source {name}: {why}") for name, why in sorted(self.unmeasured.items())) or None

    @property
    def lost_topics(self) -> str:
        """The sources whose topic is not the one that was landed from, and why; empty if there is none."""
        found = {name: why for name, why in self.unmeasured.items() if why in (REPLACED, CREATED_AGAIN)}
        return "; ".join(f"source {name}: {why}" for name, why in sorted(found.items()))

    @property
    def held(self) -> int:
        """Number of offsets behind open transactions, of all partitions."""
        return sum(item.held for item in self.partitions)


def of_kafka(
    name: str, source: KafkaSource, position: str, runtime: Runtime, topic_ids: Mapping[str, str] | None = None
) -> Lag:
    """The lag of one Kafka source.

    Args:
        name: the source's name in the spec.
        source: its spec.
        position: the landed position, `-` before the first batch.
        runtime: has the connection.
        topic_ids: of the topics that the records landed from.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: this deployment does not know the connection, or the login may not read a topic.
    """
    from confluent_kafka import Consumer

    cluster = find(source.connection, runtime)
    landed = parse(position)
    topics = [str(topic) for topic in source.topics] or list(landed)  # librdkafka takes str only, no subclass
    begins = begin_offsets(cluster, topics)
    ends = end_offsets(cluster, topics, isolation=source.isolation_level)
    last = end_offsets(cluster, topics)  # read after `ends`, so that it is not before them
    partitions = tuple(
        Partition(
            name,
            topic,
            partition,
            # a partition that came later is read from offset 0
            landed[topic].get(partition, 0) if topic in landed else None,
            end,
            begins.get(topic, {}).get(partition),
            _held(source.isolation_level, end, last.get(topic, {}).get(partition)),
        )
        for topic, parts in sorted(ends.items())
        for partition, end in sorted(parts.items())
    )
    unmeasured = {name: REPLACED} if replaced(position, ends, topics) else {}
    known = {topic: each for topic, each in (topic_ids or {}).items() if topic in ends}
    if not unmeasured and known and existing_ids(cluster, sorted(known)) != known:
        unmeasured = {name: CREATED_AGAIN}
    consumer = Consumer(cluster.consumer("lakeward-lag") | {"isolation.level": source.isolation_level})
    try:
        waiting = [item for item in partitions if item.lag]
        return Lag(
            partitions,
            _oldest(consumer, waiting) if waiting else 0.0,
            _arriving(consumer, cluster, ends),
            min((limit for limit in retentions(cluster, topics).values() if limit is not None), default=None),
            held_s=_held_s(cluster, partitions),
            unmeasured=unmeasured,
        )
    finally:
        consumer.close()


def _held(isolation: Isolation, end: int, last: int | None) -> int:
    return 0 if isolation == "read_uncommitted" or last is None else max(0, last - end)


def _held_s(cluster: Cluster, partitions: Iterable[Partition]) -> float | None:
    """Age of the first record that an open transaction holds back."""
    first: Offsets = {}
    for item in partitions:
        if item.held:
            first.setdefault(item.topic, {})[item.partition] = item.end
    if not first:
        return None
    times = written_at(cluster, first, isolation="read_uncommitted")
    return max(0.0, time.time() - min(times.values())) if times else None


def of_iceberg(stream: str, name: str, source: IcebergSource, position: str, runtime: Runtime) -> Lag:
    """The lag behind an Iceberg table, in rows, from its metadata.

    Raises:
        DependencyDown: the catalog does not answer, or there is no such table.
        Blocked: the snapshots after the position have expired.
        SpecError: nothing has landed yet, and the start snapshot is missing.
    """
    from lakeward.connectors.iceberg.source import continuity, history
    from lakeward.connectors.iceberg.source import position as source_position

    table = history.read(runtime, str(source.table))
    if table is None:
        raise DependencyDown(f"Source {name} cannot be read", why=f"there is no table {source.table}", code="LW-2505")
    landed = position != NO_DATA
    at = source_position.parse(position) if landed else continuity.first(stream, name, source, table)
    continuity.check(stream, name, at, table, source.skip)
    rows, since = table.waiting(at)
    end = max(rows, (table.main[0].total or 0) if table.main else 0)
    now = datetime.now(UTC)
    arrived = sum(
        snapshot.rows
        for snapshot in table.main
        if snapshot.operation == "append" and (now - snapshot.at).total_seconds() <= WINDOW_S
    )
    return Lag(
        (Partition(name, f"table {source.table}", 0, end - rows, end),),
        0.0 if since is None else max(0.0, (now - since).total_seconds()),
        arrived / WINDOW_S,
    )


def of_delta(stream: str, name: str, source: DeltaSource, position: str, runtime: Runtime) -> Lag | None:
    """The lag behind a Delta table, in rows, from its log; None if a writer did not record how many rows it added.

    Raises:
        DependencyDown: there is no such table.
        Blocked: the versions after the position have expired.
    """
    from lakeward.connectors.delta import location
    from lakeward.connectors.delta.source import backlog, history

    folder = location.folder_of(runtime.lake, str(source.table))
    if not location.exists(folder):
        raise DependencyDown(f"Source {name} cannot be read", why=f"{folder} is not a Delta table", code="LW-2506")
    at = None if position == NO_DATA else history.parse(position)
    if at is None and source.starting_version is not None:
        at = history.Offset("", source.starting_version, whole=False)
    if at is not None:
        history.check(stream, name, str(source.table), folder, at, skip=source.skip_changes)
    behind, whole = backlog.behind(folder, at), backlog.behind(folder, None)
    if behind.rows is None:
        return None
    now = datetime.now(UTC).timestamp()
    end = max(behind.rows, whole.rows or 0)
    arrived = sum(commit.rows or 0 for commit in backlog.since(folder, round((now - WINDOW_S) * 1000)))
    return Lag(
        (Partition(name, f"table {source.table}", 0, end - behind.rows, end),),
        0.0 if behind.since_ms is None else max(0.0, now - behind.since_ms / 1000),
        arrived / WINDOW_S,
    )


def together(lags: Iterable[Lag], unmeasured: Mapping[str, str] | None = None) -> Lag | None:
    """The lags of several sources of one stream as one; None without any.

    Args:
        lags: of the sources that were measured.
        unmeasured: the others -> why.
    """
    items = list(lags)
    if not items:
        return None
    ages = [item.oldest_s for item in items]
    rates = [item.arriving_per_second for item in items]
    return Lag(
        tuple(part for item in items for part in item.partitions),
        None if None in ages else max(age for age in ages if age is not None),
        None if None in rates else sum(rate for rate in rates if rate is not None),
        min((item.retention_s for item in items if item.retention_s is not None), default=None),
        held_s=max((item.held_s for item in items if item.held_s is not None), default=None),
        unmeasured={
            name: why for more in (*(item.unmeasured for item in items), unmeasured or {}) for name, why in more.items()
        },
    )


def of_watch(watch: Watch, now: datetime) -> Lag | None:
    """The last measurement of the driver (`registry.observations`); None without one, or in an unknown form: the driver
    may have another version."""
    if not (watch.get("partitions") or watch.get("unmeasured")) or not watch.get("at"):
        return None
    try:
        return _of_watch(watch, now)
    except (KeyError, TypeError, ValueError):
        return None


def _of_watch(watch: Watch, now: datetime) -> Lag:
    partitions = tuple(
        Partition(
            str(item["source"]), str(item["topic"]), int(item["partition"]), item.get("position"), int(item["end"])
        )
        for item in watch["partitions"]
    )
    waiting = any(item.lag for item in partitions)
    oldest = watch.get("oldest")
    age = (now - datetime.fromisoformat(str(oldest))).total_seconds() if oldest else None
    return Lag(
        partitions,
        age if waiting else 0.0,
        watch.get("arriving_per_second"),
        watch.get("retention_s"),
        watch.get("lag_per_second"),
        max(0.0, (now - datetime.fromisoformat(str(watch["at"]))).total_seconds()),
        unmeasured={str(name): str(why) for name, why in (watch.get("unmeasured") or {}).items()},
    )


def _oldest(consumer: Consumer, waiting: list[Partition]) -> float | None:
    """Age of the oldest waiting record over the partitions that answer in time; None if none does, or has a time."""
    from confluent_kafka import TopicPartition

    first_waiting = ((item, max(item.position or 0, item.begin or 0)) for item in waiting)
    consumer.assign([TopicPartition(item.topic, item.partition, offset) for item, offset in first_waiting])
    first: dict[tuple[str | None, int | None], float | None] = {}
    deadline = time.monotonic() + TIMEOUT_S / 2
    while len(first) < len(waiting) and time.monotonic() < deadline:
        for message in arrived(consumer, 500, 0.2):
            key = (message.topic(), message.partition())
            if message.error() is None and key not in first and key[0] is not None and key[1] is not None:
                first[key] = written(message)
                consumer.pause([TopicPartition(key[0], key[1])])
    times = [at for at in first.values() if at is not None]
    return max(0.0, time.time() - min(times)) if times else None


def _arriving(consumer: Consumer, cluster: Cluster, ends: Offsets) -> float | None:
    from confluent_kafka import KafkaException, TopicPartition

    since = round((time.time() - WINDOW_S) * 1000)
    partitions = [TopicPartition(topic, part, since) for topic, parts in ends.items() for part in parts]
    try:
        starts = consumer.offsets_for_times(partitions, timeout=TIMEOUT_S) if partitions else []
    except KafkaException as error:
        raise DependencyDown(
            "Kafka does not answer", why=f"brokers {cluster.bootstrap}: {error.args[0].str()}", code="LW-2507"
        ) from None
    # A partition without records in the window answers with its end (-1).
    arrived = sum(
        max(0, ends[item.topic][item.partition] - item.offset)
        for item in starts
        if item.offset is not None and item.offset >= 0
    )
    return arrived / WINDOW_S
