"""Finds which offsets of a topic hold a record. Offsets are not records.

Transaction markers, records of aborted transactions and records that log compaction removed leave offsets without a
record. Only reading the topic tells them from records.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka.arrived import arrived
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import DependencyDown
from lakeward.spec.model.sources import Isolation

if TYPE_CHECKING:
    from confluent_kafka import Consumer

TIMEOUT_S = 60.0
_APART = 20_000
"""Ranges that lie further apart than this are read one by one; nearer ones in one pass."""
Partition = tuple[str, int]
"""(topic, partition)"""
Span = tuple[int, int]
"""Offsets, from (inclusive) to (exclusive)."""


@dataclass(frozen=True)
class Records:
    """The records in ranges of offsets of one partition.

    Attributes:
        offsets: the offsets that hold a record, in order.
        unread: the ranges that could not be read: expired, past the end, or not answered in time.
    """

    offsets: tuple[int, ...] = ()
    unread: tuple[Span, ...] = ()


@dataclass
class _Pass:
    """Ranges of one partition that are read in one go; `at`: the first offset that is not read yet."""

    spans: Sequence[Span]
    at: int
    found: list[int] = field(default_factory=list)

    @property
    def until(self) -> int:
        return self.spans[-1][1]

    def unread(self) -> list[Span]:
        return [(max(low, self.at), high) for low, high in self.spans if high > self.at]


def find(
    cluster: Cluster,
    spans: Mapping[Partition, Sequence[Span]],
    isolation: Isolation,
    timeout_s: float = TIMEOUT_S,
) -> dict[Partition, Records]:
    """The records in each of the ranges.

    Args:
        spans: the ranges of each partition, in order and without overlap.
        isolation: the isolation level at which the stream reads.
        timeout_s: for all partitions together; the rest is returned as unread.

    Raises:
        DependencyDown: the broker does not answer.
    """
    topics = sorted({topic for topic, _ in spans})
    begins = broker.begin_offsets(cluster, topics)
    ends = broker.end_offsets(cluster, topics, isolation=isolation)
    deadline = time.monotonic() + timeout_s
    return {
        part: _of_partition(cluster, part, ranges, _bounds(begins, ends, part), isolation, deadline)
        for part, ranges in spans.items()
    }


def count(
    cluster: Cluster, start: Offsets, end: Offsets, isolation: Isolation, timeout_s: float = 20.0
) -> dict[Partition, int]:
    """The number of records from `start` to `end`, by partition; an offset that could not be read counts as a record.

    A broker that does not answer is the same: then every offset counts.
    """
    spans = {
        (topic, part): [(start.get(topic, {}).get(part, until), until)]
        for topic, parts in end.items()
        for part, until in parts.items()
        if start.get(topic, {}).get(part, until) < until
    }
    try:
        found = find(cluster, spans, isolation, timeout_s)
    except DependencyDown:
        return {part: high - low for part, [(low, high)] in spans.items()}
    return {
        part: len(records.offsets) + sum(high - low for low, high in records.unread) for part, records in found.items()
    }


def _bounds(begins: Offsets, ends: Offsets, part: Partition) -> Span:
    """The offsets that can be read; empty for a topic that does not exist."""
    topic, number = part
    return begins.get(topic, {}).get(number, 0), ends.get(topic, {}).get(number, 0)


def _of_partition(
    cluster: Cluster, part: Partition, ranges: Sequence[Span], bounds: Span, isolation: Isolation, deadline: float
) -> Records:
    first, last = bounds
    outside = [
        span
        for low, high in ranges
        for span in ((low, min(high, first)), (max(low, last), high))
        if span[0] < span[1]
    ]  # fmt: skip
    inside = [span for low, high in ranges if (span := (max(low, first), min(high, last)))[0] < span[1]]
    offsets: list[int] = []
    unread = outside
    if inside:
        consumer = _consumer(cluster, isolation)
        try:
            for group in _groups(inside):
                read = _Pass(group, group[0][0])
                _read(consumer, part, read, deadline)
                offsets += read.found
                unread += read.unread()
        finally:
            consumer.close()
    return Records(tuple(offsets), tuple(sorted(unread)))


def _groups(spans: Sequence[Span]) -> list[list[Span]]:
    groups = [[spans[0]]]
    for span in spans[1:]:
        if span[0] - groups[-1][-1][1] > _APART:
            groups.append([span])
        else:
            groups[-1].append(span)
    return groups


def _consumer(cluster: Cluster, isolation: Isolation) -> Consumer:
    from confluent_kafka import Consumer

    # The consumer reports the end of the partition: a range may end with a marker, after which no record comes.
    return Consumer(cluster.consumer("lakeward-records") | {"enable.partition.eof": True, "isolation.level": isolation})


def _read(consumer: Consumer, part: Partition, read: _Pass, deadline: float) -> None:
    """Read one pass until its end or the deadline."""
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(*part, read.at)])
    spans = iter(read.spans)
    low, high = next(spans)
    while read.at < read.until and time.monotonic() < deadline:
        for message in arrived(consumer, 10_000, 0.5):
            error, offset = message.error(), message.offset()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    read.at = read.until
                continue
            if offset is None or read.at >= read.until:
                continue
            read.at = max(read.at, offset + 1)
            while offset >= high and (following := next(spans, None)) is not None:
                low, high = following
            if low <= offset < high:
                read.found.append(offset)
