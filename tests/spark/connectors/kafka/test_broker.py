"""What the broker says from outside, against a real one."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka.admin import AdminClient

from lakeward.connectors.kafka import broker
from lakeward.spec.model.sources import KafkaSource


def test_ends_and_ids(kafka: Any) -> None:
    from confluent_kafka import Producer

    topic = kafka.create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"x", partition=1)
    assert producer.flush(30) == 0
    assert broker.end_offsets(kafka.cluster, [topic, "nowhere"]) == {topic: {0: 0, 1: 3}}
    by_name = broker.topic_ids(kafka.cluster, KafkaSource(topics=(topic,), max_offsets_per_trigger=1))
    by_pattern = broker.topic_ids(kafka.cluster, KafkaSource(pattern=f"{topic}.*", max_offsets_per_trigger=1))
    assert by_name == by_pattern
    assert len(by_name[topic]) == 22


def test_a_topic_created_again_has_another_id(kafka: Any) -> None:
    topic = kafka.create_topic()
    source = KafkaSource(topics=(topic,), max_offsets_per_trigger=1)
    before = broker.topic_ids(kafka.cluster, source)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.05)
    kafka.create_topic(topic)
    assert broker.topic_ids(kafka.cluster, source)[topic] != before[topic]
