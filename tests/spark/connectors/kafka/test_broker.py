"""What the broker says from outside, against a real one."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient

from lakeward.connectors.kafka import broker
from lakeward.spec.sources import KafkaSource


def test_ends_and_ids(kafka: Any) -> None:
    from confluent_kafka import Producer

    topic = kafka.create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"x", partition=1)
    assert producer.flush(30) == 0
    assert broker.end_offsets(kafka.bootstrap, [topic, "nowhere"]) == {topic: {0: 0, 1: 3}}
    by_name = broker.topic_ids(kafka.bootstrap, KafkaSource(topics=(topic,), max_offsets_per_trigger=1))
    by_pattern = broker.topic_ids(kafka.bootstrap, KafkaSource(pattern=f"{topic}.*", max_offsets_per_trigger=1))
    assert by_name == by_pattern
    assert len(by_name[topic]) == 22


def test_a_topic_created_again_has_another_id(kafka: Any) -> None:
    topic = kafka.create_topic()
    source = KafkaSource(topics=(topic,), max_offsets_per_trigger=1)
    before = broker.topic_ids(kafka.bootstrap, source)
    AdminClient({"bootstrap.servers": kafka.bootstrap}).delete_topics([topic])[topic].result(30)
    for _ in range(100):
        try:
            kafka.create_topic(topic)
            break
        except Exception:  # the broker is still deleting it
            continue
    assert broker.topic_ids(kafka.bootstrap, source)[topic] != before[topic]
