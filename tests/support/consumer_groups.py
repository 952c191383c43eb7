"""The offsets of a consumer group, read by a consumer as any tool reads them.

Not by an admin client: librdkafka 2.16 ends the process in `list_consumer_group_offsets` when the broker that it asks
is not the coordinator of the group (any more).
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Partition -> offset of a group; partitions without one are left out. Waits for the group's coordinator."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    end = time.monotonic() + 60
    try:
        while True:
            try:
                parts = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=10)
            except KafkaException:  # the coordinator is being made, or found
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return {part.partition: part.offset for part in parts if part.offset >= 0}
    finally:
        consumer.close()
