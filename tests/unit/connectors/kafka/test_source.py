"""A Kafka source of a stream against a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors import source_types
from lakeward.connectors.kafka import position
from lakeward.platform.errors import Blocked
from lakeward.platform.runtime import Lake, Runtime
from lakeward.spec.model.stream import StreamSpec


def test_records_that_expired_are_missed_by_the_source_that_reads_their_topic_only(kafka: Any, tmp_path: Path) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    own, other = kafka.create_topic(), kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(5):
        producer.produce(other, str(number), partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.delete_records([TopicPartition(other, 0, 3)]).values():
        done.result(30)
    read = {
        name: {"kafka": {"topics": [topic], "max_offsets_per_trigger": 5}} for name, topic in (("a", own), ("b", other))
    }
    spec = StreamSpec.model_validate({"id": "s", "owner": "x", "sources": read, "sink": {"iceberg": {"table": "n.t"}}})
    runtime = Runtime(
        registry_url_file=tmp_path, lake=Lake(warehouse=str(tmp_path)), kafka={"lakeward_kafka": kafka.bootstrap},
        checkpoints=str(tmp_path), drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip
    first, second = source_types.of(spec, runtime)
    first.still_has("s", position.render({own: {0: 0}}), [own, other])
    second.still_has("s", position.render({other: {0: 3}}), [own, other])
    with pytest.raises(Blocked, match="no longer has records"):
        second.still_has("s", position.render({other: {0: 2}}), [own, other])
    with pytest.raises(Blocked, match="a partition that the stream has not read yet"):
        second.still_has("s", position.render({other: {}}), [own, other])
