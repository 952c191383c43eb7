"""The Kafka clients of a running process go on when the broker behind their address is another one, or was silent.

The other broker has another cluster id and an empty log. Nobody tells the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import replaced_broker
from confluent_kafka import Producer
from replaced_broker import ReplacedBroker

from lakeward.connectors.kafka import broker
from lakeward.driver.lag import LagThread, Watched
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.spec.model.sources import KafkaSource

R = TypeVar("R")
WITHIN_S = 60.0
"""Two requests that fail after their time, and a new client; more only for a busy machine."""
ANSWER_S = 2.0
"""The time of a request while the broker is replaced; one that fails on a busy machine is repeated."""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplacedBroker]:
    broker._held.cache_clear()
    with replaced_broker.running(tmp_path_factory.mktemp("kafka")) as made:
        yield made
    broker._held.cache_clear()


def fill(one: ReplacedBroker, topic: str, *partitions: int) -> None:
    """A topic with this many records in each partition."""
    one.service.create_topic(topic, len(partitions))
    producer = Producer({"bootstrap.servers": one.service.bootstrap})
    for number, records in enumerate(partitions):
        for _ in range(records):
            producer.produce(topic, b"x", partition=number)
    assert producer.flush(60) == 0


def answered(act: Callable[[], R]) -> R:
    """What a request returns, repeated as a running process does."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            return act()
        except LakewardError:
            assert time.monotonic() < end, "it does not find the broker again"
            time.sleep(0.5)  # a request that is refused fails at once: no loop without a pause


@pytest.mark.parametrize(
    "same_port", [pytest.param(True, marks=pytest.mark.campaign, id="on its port"),
                  pytest.param(False, id="on another port", marks=pytest.mark.campaign(
                      held_by="tests/unit/connectors/kafka/test_renewed_client.py"
                      "::test_requests_of_a_running_process_are_answered_again"))],
)  # fmt: skip
def test_every_request_is_answered_by_the_broker_that_is_there_now(one: ReplacedBroker, same_port: bool) -> None:
    cluster, topic = one.service.cluster, f"replaced-{same_port}"
    source = KafkaSource(topics=(topic,), max_offsets_per_trigger=1)
    fill(one, topic, 10)
    assert answered(lambda: broker.end_offsets(cluster, [topic])) == {topic: {0: 10}}
    known = broker.topic_ids(cluster, source)
    answered(lambda: broker.set_group_offsets(cluster, "group", {topic: {0: 10}}))
    noted: list[int | None] = []
    target = Watched("flights", "source", cluster, (topic,), f'{{"{topic}":{{"0":10}}}}')
    lag = LagThread(
        lambda: [target], lambda _, records, seconds: noted.append(records), lambda *_: None, answer_s=ANSWER_S
    )
    lag.once()
    assert noted == [0]

    one.replace(same_port=same_port)

    assert answered(lambda: broker.end_offsets(cluster, [topic], ANSWER_S)) == {}
    answered(lag.once)
    fill(one, topic, 3, 1)
    assert answered(lambda: broker.end_offsets(cluster, [topic])) == {topic: {0: 3, 1: 1}}
    assert answered(lambda: broker.begin_offsets(cluster, [topic])) == {topic: {0: 0, 1: 0}}
    assert answered(lambda: broker.topic_ids(cluster, source)) != known
    answered(lag.once)
    assert noted == [0, None, None], "it has not landed what is there now"
    assert answered(lambda: broker.retentions(cluster, [topic])) == {topic: 604_800.0}
    assert answered(lambda: broker.set_group_offsets(cluster, "group", {topic: {0: 1}})) == []
    assert set(broker.written_at(cluster, {topic: {0: 2}}, timeout_s=30)) == {(topic, 0)}


@pytest.mark.campaign
def test_requests_to_a_silent_broker_fail_and_are_answered_when_it_wakes(one: ReplacedBroker) -> None:
    cluster, topic = one.service.cluster, "silent"
    fill(one, topic, 4)
    assert answered(lambda: broker.end_offsets(cluster, [topic])) == {topic: {0: 4}}
    with one.silent():
        for _ in range(3):  # two clients: the second one is made while the broker is silent
            with pytest.raises(DependencyDown, match="Kafka does not answer"):
                broker.end_offsets(cluster, [topic], timeout_s=3)
        assert broker.written_at(cluster, {topic: {0: 0}}, timeout_s=3) == {}
    assert answered(lambda: broker.end_offsets(cluster, [topic])) == {topic: {0: 4}}
    assert set(broker.written_at(cluster, {topic: {0: 0}}, timeout_s=30)) == {(topic, 0)}
