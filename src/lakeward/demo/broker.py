"""Broker reader: reads a topic back to determine the produced records, independent of any counter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lakeward.connectors.kafka.arrived import arrived
from lakeward.platform.errors import DependencyDown, TimedOut

ANSWER_S = 15.0


@dataclass(frozen=True)
class Position:
    """The position of a record, which identifies its row in every table."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Message:
    """One record of the broker; `timestamp_ms` is the producer's time."""

    position: Position
    timestamp_ms: int
    value: bytes | None


@dataclass(frozen=True)
class TopicRange:
    """The first offset and the offset after the last one, by partition."""

    topic: str
    low: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Offsets in the range; for a topic without transactions and compaction these are its records."""
        return sum(self.high[part] - self.low[part] for part in self.high)


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "lakeward-audit",  # required by the library; no offset is committed and no group is joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": 16 * 1024 * 1024,
            "log_level": 2,
        }
    )


def topic_range(bootstrap: str, topic: str) -> TopicRange:
    """The present range of a topic; empty if the topic does not exist.

    Raises:
        DependencyDown: the broker does not answer.
    """
    consumer = _consumer(bootstrap)
    try:
        return _range(consumer, bootstrap, topic)
    finally:
        consumer.close()


def _range(consumer: Consumer, bootstrap: str, topic: str) -> TopicRange:
    try:
        described = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
        offsets = TopicRange(topic)
        for part in sorted(described.partitions or {}):
            offsets.low[part], offsets.high[part] = consumer.get_watermark_offsets(
                TopicPartition(topic, part), timeout=ANSWER_S
            )
        return offsets
    except KafkaException as error:
        raise DependencyDown(
            f"Cannot read topic {topic}",
            why=f"{bootstrap}: {error.args[0].str()}",
            next="lakeward stack status",
            code="LW-7404",
        ) from None


def read_topic(bootstrap: str, topic: str, timeout_s: float = 120.0) -> Iterator[Message]:
    """Every record of the topic now, in offset order within each partition.

    Raises:
        DependencyDown: the broker does not answer.
        TimedOut: reading took longer than `timeout_s`.
    """
    consumer = _consumer(bootstrap)
    try:
        offsets = _range(consumer, bootstrap, topic)
        open_parts = {part for part in offsets.high if offsets.high[part] > offsets.low[part]}
        consumer.assign([TopicPartition(topic, part, offsets.low[part]) for part in open_parts])
        deadline = time.monotonic() + timeout_s
        while open_parts:
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"Topic {topic} was not read to its end",
                    why=f"{timeout_s:.0f} s were not enough",
                    next="lakeward stack status",
                    code="LW-7405",
                )
            for message in arrived(consumer, 5000, 1.0):
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        open_parts.discard(message.partition())
                        continue
                    raise DependencyDown(
                        f"Cannot read topic {topic}",
                        why=f"{bootstrap}: {error.str()}",
                        next="lakeward stack status",
                        code="LW-7406",
                    )
                part, offset = message.partition(), message.offset()
                if part is None or offset is None:  # only events have neither, and they have an error
                    continue
                if offset >= offsets.high[part]:
                    open_parts.discard(part)
                    continue
                yield Message(Position(part, offset), message.timestamp()[1], message.value())
    finally:
        consumer.close()
