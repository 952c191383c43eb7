"""The newest records of topics as raw rows, outside of any query and any consumer group: nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.reader import HEADERS, KEY
from lakeward.connectors.source import VALUE

COLUMNS = (
    f"{KEY} BINARY, {VALUE} BINARY, {HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>, _kafka_topic STRING, "
    "_kafka_partition INT, _kafka_offset BIGINT, _kafka_timestamp TIMESTAMP"
)
"""Of the rows, in order: as `source.read` gives them, without `_ingested_at`."""
_TIMEOUT_S = 20.0

Row = tuple[Any, ...]


def newest(
    cluster: Cluster, begin: Mapping[str, Mapping[int, int]], end: Mapping[str, Mapping[int, int]], most: int
) -> list[Row]:
    """The newest records of each partition between `begin` (inclusive) and `end` (exclusive), `most` in all.

    What the broker does not give in time is left out.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    places = {
        (topic, part): (begin.get(topic, {}).get(part, 0), until)
        for topic, parts in end.items()
        for part, until in parts.items()
        if begin.get(topic, {}).get(part, 0) < until
    }
    each = -(-most // max(1, len(places)))
    open_ones = set(places)
    found: list[Row] = []
    marked = {"enable.partition.eof": True}  # a range may end with a transaction's marker, which is no record
    consumer = Consumer(cluster.reader("lakeward-preview") | marked)
    try:
        consumer.assign([TopicPartition(*place, max(low, until - each)) for place, (low, until) in places.items()])
        limit = time.monotonic() + _TIMEOUT_S
        while open_ones and time.monotonic() < limit:
            for message in consumer.consume(100, timeout=0.2):
                place, offset, error = (message.topic(), message.partition()), message.offset(), message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        open_ones.discard(place)
                elif offset is not None and offset < places[place][1]:  # type: ignore[index]  # the same
                    found.append(_row(message))
                else:
                    open_ones.discard(place)
    finally:
        consumer.close()
    found.sort(key=lambda row: (row[6], row[3:6]))
    return found[-most:]


def _row(message: Any) -> Row:
    headers = message.headers()
    sent = None if headers is None else [(name, value) for name, value in headers]
    written = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
    place = (message.topic(), message.partition(), message.offset())
    return (message.key(), message.value(), sent, *place, written)
