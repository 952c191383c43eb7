"""Reads a few records between two offsets for a person to see, without a query and without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakeward.connectors.kafka.arrived import arrived
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform.text import instant, moment
from lakeward.spec.model.sources import Isolation
from lakeward.telemetry.mask import mask

SHOWN = 160
"""The most characters of a value that are shown."""


@dataclass(frozen=True)
class Peeked:
    """One record.

    Attributes:
        size: the size of the value in bytes; None for a tombstone.
        value: the start of the value as text.
        millis: the time it was written, as Kafka has it; -1 is none.
    """

    topic: str
    partition: int
    offset: int
    written_at: datetime
    size: int | None
    value: str
    millis: int

    @property
    def text(self) -> str:
        """The record as one line."""
        content = "no value" if self.size is None else f"{self.size:,} bytes: {self.value}"
        return f"{self.topic}/{self.partition} offset {self.offset}, {moment(self.written_at)}, {content}"


def records(
    cluster: Cluster,
    start: Mapping[str, Mapping[int, int]],
    end: Mapping[str, Mapping[int, int]],
    most: int = 5,
    timeout_s: float = 10.0,
    isolation: Isolation = "read_committed",
    written: Callable[[int], bool] = lambda millis: True,
) -> list[Peeked]:
    """The first records from `start` (inclusive) to `end` (exclusive) of each partition, `most` in all.

    Records that the broker does not return in time are missing.

    Args:
        written: whether a record that was written at this time, in milliseconds, is looked for.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    ranges = {
        (topic, part): (start.get(topic, {}).get(part, 0), until)
        for topic, parts in end.items()
        for part, until in parts.items()
        if start.get(topic, {}).get(part, 0) < until
    }
    per_partition = max(1, most // max(1, len(ranges)))
    peeked: dict[tuple[str, int], list[Peeked]] = {key: [] for key in ranges}
    done: set[tuple[str, int]] = set()
    # The consumer reports the end: a range may end with a transaction marker, which is not a record.
    settings = {"fetch.message.max.bytes": 65_536, "enable.partition.eof": True, "isolation.level": isolation}
    consumer = Consumer(cluster.consumer("lakeward-peek") | settings)
    try:
        consumer.assign([TopicPartition(topic, part, low) for (topic, part), (low, _) in ranges.items()])
        limit = time.monotonic() + timeout_s
        while len(done) < len(ranges) and time.monotonic() < limit:
            for message in arrived(consumer, 100, 0.2):
                topic, part, offset = message.topic(), message.partition(), message.offset()
                if topic is None or part is None or offset is None:
                    continue
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        done.add((topic, part))
                    continue
                key, read = (topic, part), peeked[topic, part]
                if offset < ranges[key][1] and len(read) < per_partition and written(message.timestamp()[1]):
                    read.append(_peeked(topic, part, offset, message.timestamp()[1], message.value()))
                if offset >= ranges[key][1] - 1 or len(read) >= per_partition:
                    done.add(key)
    finally:
        consumer.close()
    everything = [record for read in peeked.values() for record in read]
    return sorted(everything, key=lambda record: (record.topic, record.partition, record.offset))[:most]


def _peeked(topic: str, part: int, offset: int, millis: int, value: bytes | None) -> Peeked:
    text = "" if value is None else mask(value.decode(errors="backslashreplace"))
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    size = None if value is None else len(value)
    return Peeked(topic, part, offset, instant(millis), size, shown, millis)
