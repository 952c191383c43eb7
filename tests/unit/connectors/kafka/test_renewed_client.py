"""A Kafka admin client that does not find its broker again is replaced, in the very process that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.driver.lag import LagThread, Watched
from lakeward.platform import ports
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.registry.observations import Watch
from lakeward.spec.model.sources import KafkaSource


@pytest.fixture
def lost(kafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Cluster]]:
    """The first client of the process looks for its broker where none is, for ever; what clients were made for."""
    made: list[Cluster] = []
    connect = broker._connect

    def first_lost(cluster: Cluster) -> broker._Client:
        made.append(cluster)
        if len(made) == 1:
            return connect(Cluster(cluster.connection, f"127.0.0.1:{ports.any_free()}"))
        return connect(cluster)

    monkeypatch.setattr(broker, "_connect", first_lost)
    broker._held.cache_clear()
    yield made
    broker._held.cache_clear()


def test_requests_of_a_running_process_are_answered_again(kafka, lost: list[Cluster]) -> None:
    topic = kafka.create_topic()
    for _ in range(2):
        with pytest.raises(DependencyDown):
            broker.end_offsets(kafka.cluster, [topic], timeout_s=1)
    assert broker.end_offsets(kafka.cluster, [topic], timeout_s=10) == {topic: {0: 0}}
    broker.begin_offsets(kafka.cluster, [topic])
    broker.offsets_at(kafka.cluster, [topic], datetime.now(UTC))
    assert len(lost) == 2


def test_the_lag_reader_of_a_running_driver_sees_the_broker_again(kafka, lost: list[Cluster]) -> None:
    seen: list[str] = []

    def watch(stream: str, document: Watch) -> None:
        seen.append(stream)

    target = Watched("flights", "source", kafka.cluster, (kafka.create_topic(),), "{}")
    lag = LagThread(lambda: [target], lambda *_: None, watch, answer_s=1.0)
    for _ in range(2):
        with pytest.raises(DependencyDown):
            lag.once()
    lag._answer_s = 10.0  # the broker is there now: it may be slow
    lag.once()
    assert seen == ["flights"]


def test_a_refusal_of_the_broker_replaces_no_client(kafka, lost: list[Cluster]) -> None:
    lost.append(kafka.cluster)  # no lost client in this test
    for _ in range(3):
        with pytest.raises(SpecError):
            broker.topic_ids(kafka.cluster, KafkaSource(topics=("nowhere",), max_offsets_per_trigger=1))
    assert len(lost) == 2
