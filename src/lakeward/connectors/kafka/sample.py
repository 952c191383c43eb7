"""Reads the newest records of topics as raw rows for a preview, without a query; no offsets are committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from lakeward.connectors.kafka.arrived import arrived
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.reader import HEADERS, KEY
from lakeward.connectors.source import VALUE
from lakeward.platform.text import instant
from lakeward.spec.model.sources import Isolation

COLUMNS = (
    f"{KEY} BINARY, {VALUE} BINARY, {HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>, _kafka_topic STRING, "
    "_kafka_partition INT, _kafka_offset BIGINT, _kafka_timestamp TIMESTAMP"
)
"""The columns of the rows, in order: those of `source.read` without `_ingested_at`."""
_TIMEOUT_S = 20.0

Row = tuple[Any, ...]


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
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    ranges = {
        (topic, part): (begin.get(topic, {}).get(part, 0), until)
        for topic, parts in end.items()
        for part, until in parts.items()
        if begin.get(topic, {}).get(part, 0) < until
    }
    per_partition = -(-most // max(1, len(ranges)))
    unfinished = set(ranges)
    rows: list[Row] = []
    # The consumer reports the end: a range may end with a transaction marker, which is not a record.
    at_end = {"enable.partition.eof": True, "isolation.level": isolation}
    consumer = Consumer(cluster.consumer("lakeward-preview") | at_end)
    try:
        consumer.assign([TopicPartition(*key, max(low, until - per_partition)) for key, (low, until) in ranges.items()])
        limit = time.monotonic() + _TIMEOUT_S
        while unfinished and time.monotonic() < limit:
            for message in arrived(consumer, 100, 0.2):
                key, offset, error = (message.topic(), message.partition()), message.offset(), message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(key)
                elif offset is not None and offset < ranges[key][1]:  # type: ignore[index]  # a record has both
                    rows.append(_row(message))
                else:
                    unfinished.discard(key)
    finally:
        consumer.close()
    rows.sort(key=lambda row: (row[6], row[3:6]))
    return rows[-most:]


def _row(message: Any) -> Row:
    headers = message.headers()
    pairs = None if headers is None else [(name, value) for name, value in headers]
    written = instant(message.timestamp()[1])
    position = (message.topic(), message.partition(), message.offset())
    return (message.key(), message.value(), pairs, *position, written)
