"""One stream that reads two Kafka clusters: its lag is the sum, or it is not known; never that of one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import replaced_broker
from confluent_kafka import Producer
from consumer_groups import committed
from replaced_broker import ReplacedBroker

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.connectors.plain.rate import RateStreamSource
from lakeward.driver.group_offsets import GroupOffsets
from lakeward.driver.lag import STALE_S, LagThread, Watched
from lakeward.driver.lag_targets import LagTargets
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake, Runtime
from lakeward.registry import observations
from lakeward.registry.engine import connect
from lakeward.registry.observations import Watch
from lakeward.spec.model.sources import KafkaSource, Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.report.lag import of_kafka
from lakeward.supervision.report.sources import measure


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplacedBroker]:
    broker._held.cache_clear()
    with replaced_broker.running(tmp_path_factory.mktemp("second")) as made:
        yield made
    broker._held.cache_clear()


@dataclass
class Rig:
    """A stream of two sources, `near` and `far`, that has landed up to `landed`, and what its driver says of it."""

    near: Cluster
    far: Cluster
    stream: str = field(default_factory=lambda: f"s{uuid4().hex[:8]}")
    landed: dict[str, int] = field(default_factory=dict)
    now: float = 0.0
    noted: list[tuple[int | None, float | None]] = field(default_factory=list)
    details: list[Watch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.thread = LagThread(
            self.watched,
            lambda _, records, seconds: self.noted.append((records, seconds)),
            lambda _, found: self.details.append(found),
            clock=lambda: self.now,
            answer_s=3.0,
        )

    @property
    def topic(self) -> str:
        return f"t-{self.stream}"

    def watched(self) -> list[Watched]:
        return [
            Watched(self.stream, name, cluster, (self.topic,), self.at(name), mirrored=True)
            for name, cluster in (("near", self.near), ("far", self.far))
        ]

    def at(self, source: str) -> str:
        return position.render({self.topic: {0: self.landed[source]}})


def fill(service: Any, topic: str, records: int) -> None:
    service.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": service.bootstrap})
    for _ in range(records):
        producer.produce(topic, b"x")
    assert producer.flush(60) == 0


def runtime_of(kafka: dict[str, str]) -> Runtime:
    nowhere = Path("/nowhere")
    lake = Lake(host="-", port=1, database="-", user="-", warehouse=str(nowhere))
    return Runtime(
        kafka=kafka, lake=lake, registry_url_file=nowhere, checkpoints="/nowhere", drivers=nowhere, jars=nowhere
    )


def kafka_source(rig: Rig, name: str) -> KafkaSource:
    return KafkaSource(topics=(rig.topic,), connection=f"{name}_kafka", max_offsets_per_trigger=9)


@pytest.fixture
def rig(kafka: Any, second: ReplacedBroker) -> Rig:
    made = Rig(Cluster("near_kafka", kafka.bootstrap), Cluster("far_kafka", second.service.bootstrap))
    fill(kafka, made.topic, 30)
    fill(second.service, made.topic, 7)
    made.landed = {"near": 10, "far": 5}
    return made


def test_the_lag_is_the_sum_over_both_clusters(rig: Rig) -> None:
    rig.thread.once()
    assert [records for records, _ in rig.noted] == [22]
    [found] = rig.details
    assert [(part["source"], part["lag_records"]) for part in found["partitions"]] == [("near", 20), ("far", 2)]


def test_while_one_cluster_is_silent_the_lag_is_not_known_and_the_other_is_a_lower_bound(
    rig: Rig, second: ReplacedBroker
) -> None:
    rig.thread.once()
    with second.silent():
        rig.now = STALE_S - 1
        with pytest.raises(DependencyDown):
            rig.thread.once()
        assert len(rig.noted) == 1, "one silence is none: the last sum still counts"
        rig.now = STALE_S
        rig.landed["near"] = 11
        with pytest.raises(DependencyDown):
            rig.thread.once()
    assert rig.noted[1:] == [(None, None)]
    found = rig.details[-1]
    assert list(found["unmeasured"]) == ["far"]
    assert "Kafka does not answer" in found["unmeasured"]["far"]
    assert found["at_least"] is not None
    assert found["at_least"]["records"] == 19
    assert [part["source"] for part in found["partitions"]] == ["near"]
    assert (found["arriving_per_second"], found["lag_per_second"]) == (None, None)

    end = time.monotonic() + 60
    while True:  # the client is renewed after two failures
        try:
            rig.thread.once()
        except DependencyDown:
            assert time.monotonic() < end, "it does not find the broker again"
        else:
            break
    assert rig.noted[-1][0] == 21
    assert (rig.details[-1]["unmeasured"], rig.details[-1]["at_least"]) == ({}, None)


def test_a_source_that_a_driver_cannot_measure_makes_the_lag_not_known(rig: Rig) -> None:
    targets = [replace(target, unmeasured={"clicks": "why"}) for target in rig.watched() if target.source == "near"]
    rig.thread._watched = lambda: targets
    rig.thread.once()
    assert rig.noted == [(None, None)]
    assert rig.details[-1]["unmeasured"] == {"clicks": "why"}
    assert rig.details[-1]["at_least"] == {"records": 20, "seconds": None}


def test_each_cluster_has_the_offsets_of_its_own_source(rig: Rig, kafka: Any, second: ReplacedBroker) -> None:
    group = f"lakeward.{rig.stream}"
    addresses = {"near": kafka.bootstrap, "far": second.service.bootstrap}
    for address in addresses.values():  # a broker makes the coordinators at their first use
        committed(address, group, rig.topic, 1)
    mirror = GroupOffsets(rig.watched, lambda *_: None)
    mirror.refresh()
    mirror.once()
    assert {name: committed(address, group, rig.topic, 1) for name, address in addresses.items()} == {
        "near": {0: 10},
        "far": {0: 5},
    }


def test_a_report_asks_both_clusters_and_names_the_source_that_it_cannot_ask(rig: Rig) -> None:
    kafka = {name: kafka_source(rig, name) for name in ("near", "far")}
    sources = {
        name: {"kafka": of.model_dump(exclude_unset=True), "decode": {"json": "n BIGINT"}} for name, of in kafka.items()
    }
    spec = StreamSpec.model_validate(
        {"id": rig.stream, "owner": "ops", "sources": sources, "transform": {"sql": "SELECT * FROM near"},
         "sink": {"console": {}}, "trigger": {"every": "10s"}}
    )  # fmt: skip
    clusters = {"near_kafka": rig.near.bootstrap, "far_kafka": rig.far.bootstrap}
    positions = {name: rig.at(name) for name in sources}

    whole, nothing = measure(runtime_of(clusters), spec, positions)
    assert whole is not None
    assert (whole.records, whole.unknown, nothing) == (22, None, [])

    del clusters["far_kafka"]
    part, trouble = measure(runtime_of(clusters), spec, positions)
    assert part is not None
    assert (part.records, part.waited_s, part.at_least) == (None, None, 20)
    assert part.unknown is not None
    assert part.unknown.startswith("source far: Kafka connection 'far_kafka' does not exist")
    assert len(trouble) == 1


def test_a_topic_that_was_made_again_has_no_lag_in_a_report(rig: Rig) -> None:
    rig.landed["near"] = 31
    runtime = runtime_of({"near_kafka": rig.near.bootstrap})
    assert of_kafka("near", kafka_source(rig, "near"), rig.at("near"), runtime).records is None


def test_the_sources_that_a_driver_cannot_measure_go_with_the_others(rig: Rig) -> None:
    """One landed, one of a type without end offsets, one that has no position yet."""
    made = {
        "near": KafkaStreamSource("near", Source(kafka=kafka_source(rig, "near")), rig.near),
        "ticks": RateStreamSource("ticks", Source.model_validate({"rate": {"rows_per_second": 1}})),
        "far": KafkaStreamSource("far", Source(kafka=kafka_source(rig, "far")), rig.far),
    }
    query: Any = SimpleNamespace(
        stream=rig.stream, function=SimpleNamespace(flow=SimpleNamespace(sources=made.values()))
    )
    targets = LagTargets()
    targets.landed(rig.stream, {"near": rig.at("near"), "ticks": "7"})
    [target] = targets.positions([query])
    assert (target.source, sorted(target.unmeasured)) == ("near", ["far", "ticks"])
    assert target.unmeasured["ticks"] == "a driver does not measure a source of type rate"

    targets.landed(rig.stream, {"near": rig.at("near"), "ticks": "7", "far": rig.at("far")})
    assert [(target.source, list(target.unmeasured)) for target in targets.positions([query])] == [
        ("near", ["ticks"]),
        ("far", ["ticks"]),
    ]


@pytest.mark.parametrize(
    ("records", "at_least", "least"),
    [(None, {"records": 19, "seconds": None}, 19), (21, None, 21), (None, {"records": "odd"}, None)],
    ids=["a part", "the whole", "a form of another version"],
)
def test_supervision_reads_the_lower_bound(
    own_registry_url: str, postgres: Any, records: int | None, at_least: Any, least: int | None
) -> None:
    with connect(own_registry_url, postgres.pgpass) as connection:
        observations.record(connection, "s", lag_records=records, watch={"at_least": at_least})
        seen = observations.latest(connection, whole=False)["s"]
    assert (seen.lag_records, seen.least_records) == (records, least)
