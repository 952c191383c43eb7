"""Lag in records and in seconds, from what the broker says."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.driver.lag import STALE_S, LagThread, Meter, Source, Watched, broker, document
from lakeward.platform.errors import DependencyDown
from lakeward.registry.observations import Watch


def at(offset: int) -> str:
    return f'{{"t":{{"0":{offset}}}}}'


def test_lag_in_seconds_is_when_the_topic_ended_where_the_stream_is() -> None:
    meter = Meter()
    assert meter.measure(at(0), {"t": {0: 0}}, now=0.0) == (0, 0.0)
    assert meter.measure(at(0), {"t": {0: 50}}, now=5.0) == (50, 5.0)
    assert meter.measure(at(0), {"t": {0: 90}}, now=10.0) == (90, 10.0)
    assert meter.measure(at(50), {"t": {0: 120}}, now=15.0) == (70, 10.0)
    assert meter.measure(at(120), {"t": {0: 120}}, now=20.0) == (0, 0.0)


def test_a_topic_never_seen_that_short_has_no_lag_in_seconds() -> None:
    assert Meter().measure(at(10), {"t": {0: 1000}}, now=0.0) == (990, None)


def test_a_new_partition_counts_whole() -> None:
    assert Meter().measure(at(10), {"t": {0: 10, 1: 7}}, now=0.0) == (7, None)


def test_rates_over_the_last_minute() -> None:
    meter = Meter()
    for second, end, landed in ((0, 0, 0), (30, 300, 0), (60, 600, 0), (90, 1200, 600)):
        meter.measure(at(landed), {"t": {0: end}}, now=float(second))
    assert meter.rates() == (15.0, 5.0)


def test_the_rate_of_the_first_seconds_is_not_known() -> None:
    meter = Meter()
    meter.measure(at(0), {"t": {0: 10}}, now=0.0)
    assert meter.rates() == (None, None)


def watched(position: str) -> Watched:
    return Watched("flights", "source", Cluster("kafka", "broker:1"), ("t",), position)


def test_the_document_names_every_partition_and_only_what_waits_is_asked_for() -> None:
    found = Source(watched('{"t":{"0":10}}'), {"t": {0: 12, 1: 3}}, 5, None, 1.5, None, 3600.0)
    assert found.waiting() == {"t": {0: 10, 1: 0}}
    made = document([found], 0.0)
    assert made["partitions"] == [
        {"source": "source", "topic": "t", "partition": 0, "position": 10, "end": 12, "lag_records": 2},
        {"source": "source", "topic": "t", "partition": 1, "position": None, "end": 3, "lag_records": 3},
    ]
    assert (made["oldest"], made["retention_s"]) == ("1970-01-01T00:00:00+00:00", 3600.0)
    assert (made["arriving_per_second"], made["lag_per_second"]) == (1.5, None)
    assert json.dumps(made)


def test_a_broker_that_is_away_does_not_keep_the_others_from_being_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    away, here = Cluster("away", "away:1"), Cluster("here", "here:1")

    def ends(cluster: Cluster, topics: object, timeout_s: float, isolation: str) -> dict[str, dict[int, int]]:
        if cluster == away:
            raise DependencyDown("Kafka does not answer")
        return {"t": {0: 7}}

    monkeypatch.setattr(broker, "end_offsets", ends)
    monkeypatch.setattr(broker, "retentions", lambda cluster, topics: {"t": None})
    monkeypatch.setattr(broker, "written_at", lambda cluster, at, isolation: {("t", 0): 100.0})
    noted: dict[str, int] = {}
    seen: dict[str, object] = {}
    lag = LagThread(
        lambda: [Watched("a", "source", away, ("t",), at(5)), Watched("b", "source", here, ("t",), at(5))],
        lambda stream, records, seconds: noted.update({stream: records}),
        lambda stream, found: seen.update({stream: found}),
    )
    with pytest.raises(DependencyDown):
        lag.once()
    assert noted == {"b": 2}
    assert seen["b"]["oldest"] == "1970-01-01T00:01:40+00:00"
    assert seen["b"]["retention_s"] is None


def test_an_unexpected_answer_of_one_broker_costs_only_its_own_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    odd, here = Cluster("a-odd", "odd:1"), Cluster("here", "here:1")

    def ends(cluster: Cluster, topics: object, timeout_s: float, isolation: str) -> dict[str, dict[int, int]]:
        return {"t": {}["no such key"]} if cluster == odd else {"t": {0: 7}}

    monkeypatch.setattr(broker, "end_offsets", ends)
    monkeypatch.setattr(broker, "retentions", lambda cluster, topics: {"t": None})
    monkeypatch.setattr(broker, "written_at", lambda cluster, at, isolation: {})
    noted: list[tuple[str, int | None]] = []
    now = [0.0]
    lag = LagThread(
        lambda: [Watched("a", "source", odd, ("t",), at(5)), Watched("b", "source", here, ("t",), at(5))],
        lambda stream, records, seconds: noted.append((stream, records)),
        lambda stream, found: None,
        clock=lambda: now[0],
    )
    lag.once()
    now[0] = STALE_S
    lag.once()
    assert noted == [("b", 2), ("a", None), ("b", 2)]


@dataclass
class Measured:
    """A lag thread of one stream that has landed up to offset 5, and what it says.

    Attributes:
        ends: what the broker says; None: nothing.
    """

    monkeypatch: pytest.MonkeyPatch
    ends: dict[str, dict[int, int]] | None = None
    now: float = 0.0
    noted: list[tuple[int | None, float | None]] = field(default_factory=list)
    details: list[Watch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.monkeypatch.setattr(broker, "end_offsets", self._ends)
        self.monkeypatch.setattr(broker, "retentions", lambda cluster, topics: {"t": None})
        self.monkeypatch.setattr(broker, "written_at", lambda cluster, at, isolation: {("t", 0): 100.0})
        self.thread = LagThread(
            lambda: [watched(at(5))],
            lambda _, records, seconds: self.noted.append((records, seconds)),
            lambda _, found: self.details.append(found),
            clock=lambda: self.now,
        )

    def _ends(self, cluster: Cluster, topics: object, timeout_s: float, isolation: str) -> dict[str, dict[int, int]]:
        if self.ends is None:
            raise DependencyDown("Kafka does not answer")
        return self.ends

    def measure(self, now: float, ends: dict[str, dict[int, int]] | None) -> None:
        self.now, self.ends = now, ends
        with nullcontext() if ends is not None else pytest.raises(DependencyDown):
            self.thread.once()


def test_a_lag_that_cannot_be_measured_any_more_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waited when the broker fell silent: that is not so for ever."""
    lag = Measured(monkeypatch)
    lag.measure(0.0, {"t": {0: 5}})
    lag.measure(STALE_S - 1, None)
    assert lag.noted == [(0, 0.0)], "one silence is none"
    lag.measure(STALE_S, None)
    assert lag.noted[1:] == [(None, None)]
    assert len(lag.details) == 1, "the details stay, with their time"
    lag.measure(STALE_S + 5, {"t": {0: 7}})
    assert lag.noted[2:] == [(2, 65.0)]


@pytest.mark.parametrize("ends", [{}, {"t": {0: 3}}], ids=["it is missing", "it ends before the position"])
def test_a_topic_that_was_made_again_has_no_lag(
    monkeypatch: pytest.MonkeyPatch, ends: dict[str, dict[int, int]]
) -> None:
    lag = Measured(monkeypatch)
    lag.measure(0.0, ends)
    assert lag.noted == [(None, None)]
    assert lag.details[0]["partitions"] == []


def test_a_lag_has_the_time_of_its_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch changes other parts of the same document later."""
    lag = Measured(monkeypatch)
    lag.measure(0.0, {"t": {0: 9}})
    age = datetime.now(UTC) - datetime.fromisoformat(lag.details[0]["at"])
    assert timedelta(0) <= age < timedelta(minutes=5)


def test_rates_never_compare_the_records_of_two_topics_of_one_name() -> None:
    meter = Meter()
    meter.measure(at(900), {"t": {0: 900}}, now=0.0)
    meter.measure(at(0), {"t": {0: 40}}, now=30.0)
    assert meter.rates() == (None, None)
    meter.measure(at(0), {"t": {0: 70}}, now=60.0)
    assert meter.rates() == (1.0, 1.0)
