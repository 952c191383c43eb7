"""Landed offsets in consumer groups of a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from consumer_groups import committed

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.driver.group_offsets import GroupOffsets, groups
from lakeward.driver.lag import Watched
from lakeward.platform import ports
from lakeward.platform.errors import Refused


@pytest.fixture
def stream() -> str:
    return f"s{uuid4().hex[:8]}"


@pytest.fixture
def cluster(kafka: Any, stream: str) -> Cluster:
    """The broker, once it has a coordinator for the stream's group: it makes them at their first use."""
    committed(kafka.bootstrap, f"lakeward.{stream}", kafka.create_topic(), 1)
    return Cluster("lakeward_kafka", kafka.bootstrap)


def watched(cluster: Cluster, stream: str, at: dict[str, dict[int, int]], *, source: str = "source") -> Watched:
    return Watched(stream, source, cluster, tuple(at), position.render(at), mirrored=True)


class Rig(GroupOffsets):
    """With positions that a test sets, the events it caused, and a clock."""

    def __init__(self) -> None:
        self.now, self.landed, self.told = 1000.0, list[Watched](), list[tuple[str, str, str]]()
        super().__init__(lambda: self.landed, lambda *event: self.told.append(event), lambda: self.now)

    def offer(self, *landed: Watched) -> None:
        self.landed = list(landed)
        self.refresh()


def test_the_group_has_the_landed_offsets_and_follows_them_back(kafka: Any, cluster: Cluster, stream: str) -> None:
    topic = kafka.create_topic(partitions=2)
    made = Rig()
    for at in ({0: 5, 1: 7}, {0: 9, 1: 7}, {0: 0, 1: 2}):  # the last one: a person reset the stream
        made.offer(watched(cluster, stream, {topic: at}))
        made.once()
        assert committed(kafka.bootstrap, f"lakeward.{stream}", topic, 2) == at
    assert made.told == []


def test_an_unchanged_position_costs_no_request_until_kafka_might_forget_it(
    kafka: Any, cluster: Cluster, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []
    real: Callable[..., list[str]] = broker.set_group_offsets
    monkeypatch.setattr(broker, "set_group_offsets", lambda *a: requests.append(a[1]) or real(*a))
    topic = kafka.create_topic()
    made = Rig()
    for pause in (0, 5, 5, 900):
        made.now += pause
        made.offer(watched(cluster, stream, {topic: {0: 3}}))
        made.once()
    assert len(requests) == 2


def test_a_partition_that_two_sources_read_has_the_lower_offset(cluster: Cluster) -> None:
    other = Cluster("other", "k2:9092")
    (own, elsewhere) = groups(
        [
            watched(cluster, "s", {"t": {0: 5, 1: 9}}),
            watched(cluster, "s", {"t": {0: 3, 1: -2}}, source="again"),
            watched(other, "s", {"t": {0: 4}}, source="elsewhere"),
            Watched("off", "source", cluster, ("t",), position.render({"t": {0: 1}})),
        ]
    ).values()
    assert own == {"t": {0: 3, 1: 9}}
    assert elsewhere == {"t": {0: 4}}


def test_a_group_with_members_is_left_alone_and_said_once(kafka: Any, cluster: Cluster, stream: str) -> None:
    topic = kafka.create_topic()
    group = f"lakeward.{stream}"
    consumer = Consumer({**cluster.client(), "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        end = time.monotonic() + 60
        while not consumer.assignment():
            assert time.monotonic() < end
            consumer.poll(0.2)
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        made = Rig()
        for offset in (5, 6):
            made.offer(watched(cluster, stream, {topic: {0: offset}}))
            made.once()
        assert consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 1
        ((of, kind, text),) = made.told
        assert (of, kind) == (stream, "group-offsets")
        assert text == f"Consumer group {group} has members: its lag is not visible in Kafka's tools"
        with pytest.raises(Refused, match="mirror_offsets: false"):
            broker.set_group_offsets(cluster, group, {topic: {0: 7}})
    finally:
        consumer.close()


def test_a_topic_that_is_gone_costs_only_its_own_partitions(kafka: Any, cluster: Cluster, stream: str) -> None:
    topic = kafka.create_topic()
    made = Rig()
    made.offer(watched(cluster, stream, {topic: {0: 4}, "gone-topic": {0: 1}}))
    made.once()
    assert committed(kafka.bootstrap, f"lakeward.{stream}", topic, 1) == {0: 4}
    assert made.told == []


def test_a_broker_that_is_away_raises_nothing_and_is_not_asked_again_at_once(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Cluster("away", f"127.0.0.1:{ports.any_free()}")
    asked: list[str] = []
    real: Callable[..., list[str]] = broker.set_group_offsets
    monkeypatch.setattr(broker, "set_group_offsets", lambda *a: asked.append(a[1]) or real(*a, timeout_s=1.0))
    made = Rig()
    for offset in (1, 2):
        made.offer(watched(away, stream, {"t": {0: offset}}))
        made.once()
    assert asked == [f"lakeward.{stream}"]
    assert made.told == []


def test_its_thread_sets_what_is_offered_and_at_its_end_what_was_offered_last(
    kafka: Any, cluster: Cluster, stream: str
) -> None:
    topic = kafka.create_topic()
    made = Rig()
    made.start()
    made.offer(watched(cluster, stream, {topic: {0: 8}}))
    end = time.monotonic() + 60
    while committed(kafka.bootstrap, f"lakeward.{stream}", topic, 1) != {0: 8}:
        assert time.monotonic() < end
        time.sleep(0.05)
    made.offer(watched(cluster, stream, {topic: {0: 9}}))
    made.offer()  # the stream has stopped
    made.close()
    made._thread.join(60)
    assert not made._thread.is_alive()
    assert committed(kafka.bootstrap, f"lakeward.{stream}", topic, 1) == {0: 9}
