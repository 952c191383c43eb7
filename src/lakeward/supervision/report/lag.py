"""How far a stream is behind, seen from outside: the broker's ends against the position of what is landed.

Spark's own figures stop with the query; these go on when nothing runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.kafka.broker import TIMEOUT_S, begin_offsets, end_offsets, retentions
from lakeward.connectors.kafka.cluster import Cluster, find
from lakeward.connectors.kafka.position import Offsets, parse
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sources import KafkaSource
from lakeward.spec.model.table_source import DeltaSource, IcebergSource

if TYPE_CHECKING:
    from confluent_kafka import Consumer

WINDOW_S = 60.0
"""Over this long the rate of the source is taken."""


@dataclass(frozen=True)
class Partition:
    """One partition of a source.

    Attributes:
        position: up to where it is landed; None before anything is.
        end: the offset of the next record that comes.
        begin: the first offset the source still has; None if it was not asked.
    """

    source: str
    topic: str
    partition: int
    position: int | None
    end: int
    begin: int | None = None

    @property
    def lag(self) -> int:
        """Records (offsets) that wait."""
        return max(0, self.end - max(self.position or 0, self.begin or 0))

    @property
    def gone(self) -> int:
        """Offsets that the source gave up before they were landed: lost unless somebody else has them."""
        if self.position is None or self.begin is None:
            return 0
        return max(0, self.begin - self.position)

    def document(self) -> dict[str, Any]:
        """As `streams status -o json` shows it."""
        return {
            "source": self.source,
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "end": self.end,
            "lag_records": self.lag,
        }


@dataclass(frozen=True)
class Lag:
    """What the source says.

    Attributes:
        partitions: every partition of every topic of the source.
        oldest_s: age of the oldest record that waits, in seconds; 0 when nothing waits, None if it cannot be told.
        arriving_per_second: records that came in over the last minute, per second.
        retention_s: shortest retention of the topics; None when they keep for ever.
        per_second: slope of the lag as the driver measured it, in records; None when nobody did.
        age_s: how old the figures are; 0 when the source was asked just now.
    """

    partitions: tuple[Partition, ...] = field(default_factory=tuple)
    oldest_s: float | None = None
    arriving_per_second: float | None = None
    retention_s: float | None = None
    per_second: float | None = None
    age_s: float = 0.0

    @property
    def records(self) -> int:
        """Records that wait, over all partitions."""
        return sum(item.lag for item in self.partitions)


def of_kafka(name: str, source: KafkaSource, position: str, runtime: Runtime) -> Lag:
    """The lag of one Kafka source.

    Args:
        name: the source's name in the spec.
        source: its spec.
        position: what is landed, `-` before anything is.
        runtime: knows the connection.

    Raises:
        DependencyDown: the broker does not answer.
        SpecError: this deployment does not know the connection.
    """
    from confluent_kafka import Consumer

    cluster = find(source.connection, runtime)
    landed = parse(position)
    topics = [str(topic) for topic in source.topics] or list(landed)  # librdkafka takes str alone, no kind of it
    ends, begins = end_offsets(cluster, topics), begin_offsets(cluster, topics)
    partitions = tuple(
        Partition(
            name, topic, partition, landed.get(topic, {}).get(partition), end, begins.get(topic, {}).get(partition)
        )
        for topic, parts in sorted(ends.items())
        for partition, end in sorted(parts.items())
    )
    consumer = Consumer(cluster.reader("lakeward-lag"))
    try:
        waiting = [item for item in partitions if item.lag]
        return Lag(
            partitions,
            _oldest(consumer, waiting) if waiting else 0.0,
            _arriving(consumer, cluster, ends),
            min((kept for kept in retentions(cluster, topics).values() if kept is not None), default=None),
        )
    finally:
        consumer.close()


def of_iceberg(stream: str, name: str, source: IcebergSource, position: str, runtime: Runtime) -> Lag:
    """The lag behind an Iceberg table, in rows, out of its metadata.

    Raises:
        DependencyDown: the catalog does not answer, or there is no such table.
        Blocked: the table has no longer what comes after the position.
        SpecError: nothing is landed yet, and where it should begin is gone.
    """
    from lakeward.connectors.iceberg.source import continuity, history
    from lakeward.connectors.iceberg.source import position as feed_position

    found = history.read(runtime, str(source.table))
    if found is None:
        raise DependencyDown(f"Source {name} cannot be asked", why=f"there is no table {source.table}", code="LW-2505")
    begun = position != NO_DATA
    at = feed_position.parse(position) if begun else continuity.first(stream, name, source, found)
    continuity.check(stream, name, at, found, source.skip)
    rows, since = found.waiting(at)
    end = max(rows, (found.main[0].total or 0) if found.main else 0)
    now = datetime.now(UTC)
    came = sum(
        each.rows for each in found.main if each.operation == "append" and (now - each.at).total_seconds() <= WINDOW_S
    )
    return Lag(
        (Partition(name, f"table {source.table}", 0, end - rows, end),),
        0.0 if since is None else max(0.0, (now - since).total_seconds()),
        came / WINDOW_S,
    )


def of_delta(stream: str, name: str, source: DeltaSource, position: str, runtime: Runtime) -> Lag | None:
    """The same behind a Delta table, out of its log; None where a writer of it does not say how many rows it added.

    Raises:
        DependencyDown: there is no such table.
        Blocked: the table has no longer what comes after the position.
    """
    from lakeward.connectors.delta import location
    from lakeward.connectors.delta.source import backlog as waiting
    from lakeward.connectors.delta.source import history

    folder = location.folder_of(runtime.lake, str(source.table))
    if not location.exists(folder):
        raise DependencyDown(f"Source {name} cannot be asked", why=f"{folder} holds no Delta table", code="LW-2506")
    at = None if position == NO_DATA else history.parse(position)
    if at is None and source.starting_version is not None:
        at = history.Offset("", source.starting_version, whole=False)
    if at is not None:
        history.check(stream, name, str(source.table), folder, at, skip=source.skip_changes)
    found, whole = waiting.behind(folder, at), waiting.behind(folder, None)
    if found.rows is None:
        return None
    now = datetime.now(UTC).timestamp()
    end = max(found.rows, whole.rows or 0)
    came = sum(each.rows or 0 for each in waiting.since(folder, round((now - WINDOW_S) * 1000)))
    return Lag(
        (Partition(name, f"table {source.table}", 0, end - found.rows, end),),
        0.0 if found.since_ms is None else max(0.0, now - found.since_ms / 1000),
        came / WINDOW_S,
    )


def together(found: Iterable[Lag]) -> Lag | None:
    """Several sources of one stream as one; None without any."""
    each = list(found)
    if not each:
        return None
    ages = [item.oldest_s for item in each]
    rates = [item.arriving_per_second for item in each]
    return Lag(
        tuple(part for item in each for part in item.partitions),
        None if None in ages else max(age for age in ages if age is not None),
        None if None in rates else sum(rate for rate in rates if rate is not None),
        min((item.retention_s for item in each if item.retention_s is not None), default=None),
    )


def of_watch(watch: Mapping[str, Any], now: datetime) -> Lag | None:
    """What the driver measured last (`registry.observations`); None when it measured nothing yet, or in another form:
    a driver may be a version older or newer."""
    if not watch.get("partitions") or not watch.get("at"):
        return None
    try:
        return _of_watch(watch, now)
    except (KeyError, TypeError, ValueError):
        return None


def _of_watch(watch: Mapping[str, Any], now: datetime) -> Lag:
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
    )


def _oldest(consumer: Consumer, waiting: list[Partition]) -> float | None:
    """Age of the first waiting record over the partitions; a partition that gives none in time says nothing."""
    from confluent_kafka import TopicPartition

    first_waiting = ((item, max(item.position or 0, item.begin or 0)) for item in waiting)
    consumer.assign([TopicPartition(item.topic, item.partition, offset) for item, offset in first_waiting])
    first: dict[tuple[str | None, int | None], float] = {}
    deadline = time.monotonic() + TIMEOUT_S / 2
    while len(first) < len(waiting) and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.2):
            key = (message.topic(), message.partition())
            if message.error() is None and key not in first and key[0] is not None and key[1] is not None:
                first[key] = message.timestamp()[1] / 1000
                consumer.pause([TopicPartition(key[0], key[1])])
    return max(0.0, time.time() - min(first.values())) if first else None


def _arriving(consumer: Consumer, cluster: Cluster, ends: Offsets) -> float | None:
    from confluent_kafka import KafkaException, TopicPartition

    since = round((time.time() - WINDOW_S) * 1000)
    asked = [TopicPartition(topic, part, since) for topic, parts in ends.items() for part in parts]
    try:
        found = consumer.offsets_for_times(asked, timeout=TIMEOUT_S) if asked else []
    except KafkaException as error:
        raise DependencyDown(
            "Kafka does not answer", why=f"brokers {cluster.bootstrap}: {error.args[0].str()}", code="LW-2507"
        ) from None
    # A partition with nothing that young answers with its end (-1): nothing came.
    came = sum(
        max(0, ends[item.topic][item.partition] - item.offset)
        for item in found
        if item.offset is not None and item.offset >= 0
    )
    return came / WINDOW_S
