"""What is looked up in a topic by time, and its newest records where the last offsets have none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from lakeward.connectors.kafka import broker, sample

AT = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
MILLIS = 1_772_366_400_123


def newest(kafka: Any, topic: str, most: int) -> list[int]:
    begin, end = broker.begin_offsets(kafka.cluster, [topic]), broker.end_offsets(kafka.cluster, [topic])
    return [row[5] for row in sample.newest(kafka.cluster, begin, end, most)]


def test_the_newest_records_are_found_behind_markers_and_aborted_records(kafka: Any) -> None:
    from confluent_kafka import Producer

    topic = str(kafka.create_topic())
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": uuid4().hex})
    producer.init_transactions(60)
    for number in range(30):
        producer.begin_transaction()
        producer.produce(topic, str(number), partition=0)
        producer.flush(60)
        (producer.abort_transaction if number >= 5 else producer.commit_transaction)(60)
    assert newest(kafka, topic, 1) == [8], "the fifth record; each has a marker behind it, and 25 were aborted"
    assert newest(kafka, topic, 3) == [4, 6, 8]
    assert newest(kafka, topic, 100) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("micros", "first"), [(-1, 1), (0, 1), (1, 2), (1001, 3)])
def test_a_time_means_the_first_record_that_is_not_before_it(kafka: Any, micros: int, first: int) -> None:
    from confluent_kafka import Producer

    topic = str(kafka.create_topic(partitions=2))
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for millis in (MILLIS - 1, MILLIS, MILLIS + 1):
        producer.produce(topic, b"x", partition=0, timestamp=millis)
    assert producer.flush(60) == 0
    found = broker.offsets_at(kafka.cluster, [topic], AT + timedelta(microseconds=micros))
    assert found == {topic: {0: first, 1: 0}}
