"""Reads the newest records of topics as raw rows for a preview, without a query; no offsets are committed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.connectors.kafka.arrived import arrived
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.reader import HEADERS, KEY
from lakeward.connectors.source import VALUE
from lakeward.platform.text import instant
from lakeward.spec.model.sources import Isolation

if TYPE_CHECKING:
    from confluent_kafka import Consumer

COLUMNS = (
    f"{KEY} BINARY, {VALUE} BINARY, {HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>, _kafka_topic STRING, "
    "_kafka_partition INT, _kafka_offset BIGINT, _kafka_timestamp TIMESTAMP"
)
"""The columns of the rows, in order: those of `source.read` without `_ingested_at`."""
_TIMEOUT_S = 20.0
_FURTHER = 10
"""By how much further back the next look begins, if the last offsets have too few records."""

Row = tuple[Any, ...]
Partition = tuple[str, int]
"""(topic, partition)"""


def newest(
    cluster: Cluster,
    begin: Mapping[str, Mapping[int, int]],
    end: Mapping[str, Mapping[int, int]],
    most: int,
    isolation: Isolation = "read_committed",
) -> list[Row]:
    """The newest records of each partition between `begin` (inclusive) and `end` (exclusive), `most` in all.

    Records that the broker does not return in time are missing.
    """
    from confluent_kafka import Consumer

    ranges = {
        (topic, part): (begin.get(topic, {}).get(part, 0), until)
        for topic, parts in end.items()
        for part, until in parts.items()
        if begin.get(topic, {}).get(part, 0) < until
    }
    per_partition = -(-most // max(1, len(ranges)))
    found: dict[Partition, list[Row]] = {}
    # The consumer reports the end: a range may end with a transaction marker, which is not a record.
    at_end = {"enable.partition.eof": True, "isolation.level": isolation}
    consumer = Consumer(cluster.consumer("lakeward-preview") | at_end)
    try:
        limit, back, short = time.monotonic() + _TIMEOUT_S, per_partition, ranges
        while short and time.monotonic() < limit:
            spans = {part: (max(low, until - back), until) for part, (low, until) in short.items()}
            read = _newest_of(consumer, spans, per_partition, limit)
            found |= {part: rows for part, rows in read.items() if len(rows) >= len(found.get(part, []))}
            # Offsets of markers, of aborted transactions and of compacted records have none: look further back.
            more = {part for part, (at, _) in spans.items() if len(found[part]) < per_partition and at > short[part][0]}
            short = {part: span for part, span in short.items() if part in more}
            back *= _FURTHER
    finally:
        consumer.close()
    rows = [row for of_partition in found.values() for row in of_partition]
    rows.sort(key=lambda row: (row[6], row[3:6]))
    return rows[-most:]


def _newest_of(
    consumer: Consumer, spans: Mapping[Partition, tuple[int, int]], most: int, limit: float
) -> dict[Partition, list[Row]]:
    """The newest records in a range of each partition, at most `most` of each, as far as they come before `limit`."""
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(*part, low) for part, (low, _) in spans.items()])
    found: dict[Partition, deque[Row]] = {part: deque(maxlen=most) for part in spans}
    unfinished = set(spans)
    while unfinished and time.monotonic() < limit:
        for message in arrived(consumer, 100, 0.2):
            topic, number, offset, error = message.topic(), message.partition(), message.offset(), message.error()
            if topic is None or number is None or (part := (topic, number)) not in unfinished:
                continue
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(part)
            elif offset is not None and offset < spans[part][1]:
                found[part].append(_row(message))
            else:
                unfinished.discard(part)
    return {part: list(rows) for part, rows in found.items()}


def _row(message: Any) -> Row:
    headers = message.headers()
    pairs = None if headers is None else [(name, value) for name, value in headers]
    written = instant(message.timestamp()[1])
    position = (message.topic(), message.partition(), message.offset())
    return (message.key(), message.value(), pairs, *position, written)
