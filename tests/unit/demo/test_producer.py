from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from lakeward.demo import broker, flights
from lakeward.demo.flights import Record
from lakeward.demo.producer import Sender
from lakeward.platform.errors import DependencyDown


def test_everything_sent_is_in_the_topic_once_and_can_be_read_back(kafka: Any, year: pa.Table) -> None:
    topic = kafka.create_topic(partitions=3)
    records = list(flights.replay(year.slice(0, 3000), seed=2, broken=0.05))
    sender = Sender(kafka.bootstrap, topic)
    sender.send(records, per_second=1e6)
    found = list(broker.read_topic(kafka.bootstrap, topic))
    assert sorted(item.value or b"" for item in found) == sorted(record.value or b"" for record in records)
    assert len({item.position for item in found}) == len(records) == sender.total
    assert broker.topic_range(kafka.bootstrap, topic).records == len(records)
    assert sum(item.value is None for item in found) == sender.sent["null"]


def test_it_stops_between_records_when_asked(kafka: Any) -> None:
    stop, handed = threading.Event(), []

    def endless() -> Iterator[Record]:
        for number in count():
            handed.append(number)
            if number == 20:
                stop.set()
            yield Record(b"k", b"v", "flight")

    sender = Sender(kafka.bootstrap, kafka.create_topic())
    sender.send(endless(), per_second=1e6, stop=stop)
    assert sender.total == 20
    assert len(handed) == 21


def test_an_unknown_topic_is_reported(kafka: Any) -> None:
    sender = Sender(kafka.bootstrap, "nobody-made-this", give_up_s=3.0)
    with pytest.raises(DependencyDown, match="Kafka"):
        sender.send([Record(b"k", b"v", "flight")], per_second=10)


def test_a_topic_that_does_not_exist_has_no_records(kafka: Any) -> None:
    assert broker.topic_range(kafka.bootstrap, "nobody-made-this").records == 0
    assert list(broker.read_topic(kafka.bootstrap, "nobody-made-this")) == []
