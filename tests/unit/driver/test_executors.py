"""Executors by lag: how many a load needs; a day of load stays within its limit with fewer than its peak needs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from lakeward.driver.executors import EVERY_S, HOLD_S, ExecutorSizing, Load, needed
from lakeward.driver.lag_targets import LagTargets

CALM = Load(arriving=700.0, waiting=0, behind_s=None, rate=1000.0, limit_s=300.0)


@pytest.mark.parametrize(
    ("loads", "executors"),
    [
        ([], 1),
        ([CALM], 1),
        ([CALM, CALM], 2),
        ([Load(701.0, 0, None, 1000.0, 300.0)], 2),
        # What waits is to land within half the limit.
        ([Load(0.0, 150_000, 10.0, 1000.0, 300.0)], 1),
        ([Load(0.0, 450_000, 10.0, 1000.0, 300.0)], 3),
        # More than half of the limit behind, whatever was measured: the rate may be wrong.
        ([Load(1.0, 1, 151.0, 1000.0, 300.0)], 8),
        ([Load(None, 0, None, 1000.0, 300.0)], 8),
        ([Load(1.0, None, None, 1000.0, 300.0)], 8),
        ([CALM, Load(1.0, 0, None, None, 300.0)], 8),
        ([Load(1e9, 0, None, 1000.0, 300.0)], 8),
    ],
)
def test_a_load_needs_as_many_as_its_limit_asks_for(loads: list[Load], executors: int) -> None:
    assert needed(loads, 1, 8) == executors


@dataclass
class Cluster:
    """Executors that start after a while. `refuses`: the master does not answer."""

    clock: list[float]
    number: int
    starts_s: float = 20.0
    refuses: bool = False
    _wanted: int = 0
    _starting: deque[float] = field(default_factory=deque)

    def running(self) -> Sequence[str]:
        while self._starting and self._starting[0] <= self.clock[0]:
            self._starting.popleft()
            self.number += 1
        return [str(each) for each in range(self.number)]

    def resize(self, number: int) -> None:
        if self.refuses:
            raise ConnectionError("no master")
        have = len(self.running()) + len(self._starting)
        self._starting.extend([self.clock[0] + self.starts_s] * max(0, number - have))
        while self._starting and self.number + len(self._starting) > number:
            self._starting.pop()
        self.number = min(self.number, number)


def sizing(clock: list[float], cluster: Cluster, least: int, most: int) -> ExecutorSizing:
    return ExecutorSizing(cluster, least, most, clock=lambda: clock[0])


def test_an_executor_that_is_not_needed_is_held_for_minutes_and_one_that_is_needed_comes_at_once() -> None:
    clock, words = [0.0], []
    cluster = Cluster(clock, 4)
    size = ExecutorSizing(cluster, 1, 4, words.append, clock=lambda: clock[0])
    size.landed("s", 1000, 1.0)
    size.decide([])
    for clock[0] in range(0, int(HOLD_S) + 1, 10):
        size.decide([CALM])
        assert cluster.number == 4
    clock[0] += 10
    size.decide([CALM])
    assert cluster.number == 1
    assert words == ["executors: 4 before, 1 now, within 1 and 4"]
    size.decide([Load(2500.0, 0, None, 1000.0, 300.0)])
    clock[0] += 30
    assert len(cluster.running()) == 4
    size.decide([CALM])
    clock[0] += HOLD_S / 2
    size.decide([CALM])
    assert len(cluster.running()) == 4, "a lull of minutes releases none"


def test_a_cluster_that_refuses_stops_nothing_and_is_asked_again() -> None:
    clock = [0.0]
    cluster = Cluster(clock, 2, refuses=True)
    size = sizing(clock, cluster, 1, 2)
    size.decide([CALM])
    clock[0] = HOLD_S + 1
    size.decide([CALM])
    assert cluster.number == 2
    cluster.refuses = False
    size.decide([CALM])
    assert cluster.number == 1


def test_what_is_measured_of_a_stream_decides() -> None:
    clock, targets = [0.0], LagTargets()
    cluster = Cluster(clock, 4)
    size = sizing(clock, cluster, 1, 4)
    spec = SimpleNamespace(limits=SimpleNamespace(freshness=SimpleNamespace(seconds=300)))
    running = {"s": SimpleNamespace(assignment=SimpleNamespace(spec=spec))}
    size.landed("s", 40_000, 10.0)  # 1,000 a second by each of four
    size.landed("s", 10, 1.0)  # a small batch measures its overhead
    targets.behind("s", 0)
    targets.arrives("s", 1300.0)
    for clock[0] in range(0, int(HOLD_S + EVERY_S) + 1, int(EVERY_S)):
        size.turn(running, targets)
    assert cluster.number == 2
    targets.behind("s", 10, 200.0)
    clock[0] += EVERY_S
    size.turn(running, targets)
    clock[0] += cluster.starts_s
    assert len(cluster.running()) == 4
    targets.arrives("s", None)
    clock[0] += HOLD_S + 1
    size.turn(running, targets)
    assert len(cluster.running()) == 4, "what arrives is not known"
    targets.arrives("s", 1300.0)
    targets.began("s", {})
    assert targets.arriving("s") is None, "a stream that was started again is measured again"


def test_a_day_of_load_stays_within_its_limit_with_fewer_executors_than_its_peak_needs() -> None:
    """Ten batches a minute; a third of the peak at night, two bursts of ten minutes at twice the load of the hour."""
    limit, rate, every, peak = 300.0, 1000.0, 6.0, 5600.0
    clock = [0.0]
    cluster = Cluster(clock, 8)
    size = sizing(clock, cluster, 1, 8)
    arrived = landed = 0.0
    waiting: deque[tuple[float, float]] = deque()  # when, how many
    executor_seconds, stale, turns = 0.0, 0, 0
    while clock[0] < 86_400:
        hour = clock[0] / 3600
        load = peak * (0.35 + 0.3 * (1 - math.cos(hour / 24 * 2 * math.pi)) / 2)
        load *= 2 if 9 <= hour < 9.17 or 20 <= hour < 20.17 else 1
        waiting.append((clock[0], load * every))
        arrived += load * every
        have = len(cluster.running())
        room = batch = have * rate * every
        while waiting and room > 0:
            at, many = waiting.popleft()
            taken = min(many, room)
            room -= taken
            if many > taken:
                waiting.appendleft((at, many - taken))
        landed += batch - room
        size.landed("s", int(batch - room), every * (batch - room) / batch)
        executor_seconds += have * every
        behind = clock[0] - waiting[0][0] if waiting else 0.0
        stale += behind > limit
        turns += 1
        left = int(sum(many for _, many in waiting))
        if clock[0] % 12 == 0:
            size.decide([Load(load, left, behind or None, rate, limit)])
        clock[0] += every
    assert landed == pytest.approx(arrived, rel=0.01)
    assert stale / turns <= 0.01
    assert executor_seconds / (8 * 86_400) <= 0.6
