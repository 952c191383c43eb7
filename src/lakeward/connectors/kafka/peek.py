"""A look at a few records between two offsets, outside of any query and any consumer group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform.text import moment
from lakeward.telemetry.mask import mask

SHOWN = 160
"""Characters of a value that are shown."""


@dataclass(frozen=True)
class Peeked:
    """One record. `value` is the beginning of it as text; `size` its bytes, None for a tombstone."""

    topic: str
    partition: int
    offset: int
    written_at: datetime
    size: int | None
    value: str

    @property
    def words(self) -> str:
        """In one line."""
        what = "no value" if self.size is None else f"{self.size:,} bytes: {self.value}"
        return f"{self.topic}/{self.partition} offset {self.offset}, {moment(self.written_at)}, {what}"


def records(
    cluster: Cluster,
    start: Mapping[str, Mapping[int, int]],
    end: Mapping[str, Mapping[int, int]],
    most: int = 5,
    timeout_s: float = 10.0,
) -> list[Peeked]:
    """The first records from `start` (inclusive) to `end` (exclusive) of each partition, `most` in all.

    What the broker does not give in time is left out.
    """
    from confluent_kafka import Consumer, TopicPartition

    ranges = {
        (topic, part): (start.get(topic, {}).get(part, 0), until)
        for topic, parts in end.items()
        for part, until in parts.items()
        if start.get(topic, {}).get(part, 0) < until
    }
    each = max(1, most // max(1, len(ranges)))
    found: dict[tuple[str, int], list[Peeked]] = {place: [] for place in ranges}
    done: set[tuple[str, int]] = set()
    consumer = Consumer(cluster.reader("lakeward-peek") | {"fetch.message.max.bytes": 65_536})
    try:
        consumer.assign([TopicPartition(topic, part, low) for (topic, part), (low, _) in ranges.items()])
        limit = time.monotonic() + timeout_s
        while len(done) < len(ranges) and time.monotonic() < limit:
            for message in consumer.consume(100, timeout=0.2):
                topic, part, offset = message.topic(), message.partition(), message.offset()
                if message.error() is not None or topic is None or part is None or offset is None:
                    continue
                place, kept = (topic, part), found[topic, part]
                if offset < ranges[place][1] and len(kept) < each:
                    kept.append(_peeked(topic, part, offset, message.timestamp()[1], message.value()))
                if offset >= ranges[place][1] - 1 or len(kept) >= each:
                    done.add(place)
    finally:
        consumer.close()
    return sorted((one for kept in found.values() for one in kept), key=lambda r: (r.topic, r.partition, r.offset))[
        :most
    ]


def _peeked(topic: str, part: int, offset: int, millis: int, value: bytes | None) -> Peeked:
    text = "" if value is None else mask(value.decode(errors="backslashreplace"))
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    size = None if value is None else len(value)
    return Peeked(topic, part, offset, datetime.fromtimestamp(millis / 1000, UTC), size, shown)
