"""Times that a producer gave records, from none at all to one that Spark's reader cannot hold."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from lakeward.platform.errors import Poison

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def send(lab: Any, topic: str, *times: int) -> None:
    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap})
    for n, at in enumerate(times):
        producer.produce(topic, json.dumps({"n": n, "s": "x"}).encode(), partition=0, timestamp=at)
    assert producer.flush(60) == 0


def test_a_time_that_the_reader_cannot_hold_is_named_with_its_record(lab: Any) -> None:
    """Spark converts the time of each record while it reads, also where no column has it: one stops all of a batch."""
    topic = lab.topic(**{"message.timestamp.after.max.ms": str(2**63 - 1)})
    now = int(time.time() * 1000)
    document = lab.spec(topic, transform={"sql": "SELECT n, s, unix_micros(_kafka_timestamp) AS at, _kafka_topic, "
                                          "_kafka_partition, _kafka_offset FROM source"})  # fmt: skip
    send(lab, topic, now, -1, now * 1000)
    lab.run(document, 3)
    landed = {row["n"]: row["at"] for row in lab.rows(columns="n, at")}
    assert landed == {0: now * 1000, 1: -1000, 2: now * 1_000_000}, "exact: a double has no room for them"
    send(lab, topic, now, now * 1_000_000)
    error = lab.fail(document)
    assert isinstance(error, Poison), error
    assert error.code == "LW-3491"
    assert error.why.startswith(f"{topic}/0 offset 4 was written at {now * 1_000_000} ms since 1970")
