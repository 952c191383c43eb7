"""Executors by lag: as many as the streams of this driver need to stay within their freshness limits.

Spark's dynamic allocation adds an executor for waiting tasks: every batch has some, so a stream that is well within its
limit holds as many executors as at its peak. Here the number follows what arrives and what waits.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from lakeward.driver.lag_targets import LagTargets
from lakeward.driver.running import Running
from lakeward.spec.model.driver_conf import LEAST_EXECUTORS, MOST_EXECUTORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)

EVERY_S = 10.0
"""Seconds between two decisions."""
HOLD_S = 300.0
"""An executor is released when it was not needed for this long: a new one takes seconds to start and to warm up."""
UTILIZATION = 0.7
"""Share of the time that executors may work for what arrives. The rest is room for bursts and for a lost executor."""
CATCH_UP = 0.5
"""Share of the freshness limit within which what waits is to land; a stream further behind gets all executors."""
HALF_LIFE_S = 6 * 3600.0
"""After this long the best measured rate counts half: small batches at night measure their overhead, not the rate."""


@dataclass(frozen=True)
class Load:
    """What one stream needs of its executors. None: not known.

    Attributes:
        arriving: records per second that arrive.
        waiting: records that are not read yet.
        behind_s: age in seconds of the oldest of them.
        rate: records per second that one executor lands.
        limit_s: the freshness limit in seconds.
    """

    arriving: float | None
    waiting: int | None
    behind_s: float | None
    rate: float | None
    limit_s: float

    @property
    def executors(self) -> float:
        """How many executors it needs; infinite if that is not known, or if it is far behind."""
        if self.arriving is None or self.waiting is None or not self.rate:
            return math.inf
        if self.behind_s is not None and self.behind_s > CATCH_UP * self.limit_s:
            return math.inf
        return self.arriving / (UTILIZATION * self.rate) + self.waiting / (CATCH_UP * self.limit_s * self.rate)


def needed(loads: Iterable[Load], least: int, most: int) -> int:
    """Executors for all streams of a driver, within its bounds."""
    total = sum((load.executors for load in loads), start=0.0)
    return most if math.isinf(total) else min(most, max(least, math.ceil(total)))


class Executors(Protocol):
    """The executors of an application."""

    def running(self) -> Sequence[str]:
        """Ids of those that are registered, the oldest first."""

    def resize(self, number: int) -> None:
        """Ask the cluster for this many; release what is more and has no task."""


@dataclass
class SparkExecutors:
    """The executors of a Spark application without dynamic allocation."""

    spark: SparkSession

    def running(self) -> list[str]:
        ids = self._context.getExecutorIds()
        return sorted((ids.apply(index) for index in range(ids.size())), key=int)

    def resize(self, number: int) -> None:
        jvm: Any = self.spark.sparkContext._jvm
        self._context.requestTotalExecutors(number, 0, jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap()))
        surplus = len(self.running()) - number
        for executor in reversed(self.running()):
            if surplus <= 0:
                return
            chosen = jvm.java.util.ArrayList()
            chosen.add(executor)
            # The target was set above; a failure is not counted; one with a task is not released.
            released = self._context.schedulerBackend().killExecutors(
                jvm.PythonUtils.toSeq(chosen), False, False, False
            )
            surplus -= released.size()

    @property
    def _context(self) -> Any:
        return self.spark.sparkContext._jsc.sc()


@dataclass
class ExecutorSizing:
    """Decides every few seconds how many executors a driver has. Starts with all: what waits is not known yet.

    Args:
        least, most: bounds.
        changed: called with the words of each change.
        hold_s: see `HOLD_S`.
    """

    executors: Executors
    least: int
    most: int
    changed: Callable[[str], None] = lambda words: None
    hold_s: float = HOLD_S
    clock: Callable[[], float] = time.monotonic
    _rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    _needs: deque[tuple[float, int]] = field(default_factory=deque)
    _target: int = field(init=False)
    _working: int = field(init=False)
    _next: float = -math.inf

    def __post_init__(self) -> None:
        self._target = self._working = self.most
        self._needs.append((self.clock(), self.most))

    def landed(self, stream: str, records: int, seconds: float) -> None:
        """Measure the rate of a stream by a batch. Called by the threads of batches."""
        if records > 0 and seconds > 0:
            now, rate = self.clock(), records / seconds / self._working
            self._rates[stream] = (now, max(rate, self._rate(stream, now) or 0.0))

    def turn(self, running: Mapping[str, Running], targets: LagTargets) -> None:
        """Decide, if it is time."""
        now = self.clock()
        if now >= self._next:
            self._next = now + EVERY_S
            self.decide([self._load(name, query, targets, now) for name, query in running.items()])

    def decide(self, loads: Sequence[Load]) -> None:
        """Ask for what the streams needed at most within the last minutes. Without a stream nothing is decided."""
        if not loads:
            return
        now = self.clock()
        self._needs.append((now, needed(loads, self.least, self.most)))
        while self._needs[0][0] < now - self.hold_s:
            self._needs.popleft()
        before, self._target = self._target, max(number for _, number in self._needs)
        try:
            have = len(self.executors.running())
            if self._target != before or have > self._target:
                self.executors.resize(self._target)
            self._working = max(1, min(have, self._target))
        except Exception as error:  # noqa: BLE001  # named boundary: a cluster that refuses must not stop the streams
            _log.warning("executors not resized", executors=self._target, error=str(error))
        if self._target != before:
            _log.info("executors resized", before=before, executors=self._target, loads=[str(load) for load in loads])
            self.changed(f"executors: {before} before, {self._target} now, within {self.least} and {self.most}")

    def _load(self, name: str, query: Running, targets: LagTargets, now: float) -> Load:
        return Load(
            arriving=targets.arriving(name),
            waiting=targets.waiting(name),
            behind_s=targets.behind_s(name),
            rate=self._rate(name, now),
            limit_s=float(query.assignment.spec.limits.freshness.seconds),
        )

    def _rate(self, stream: str, now: float) -> float | None:
        found = self._rates.get(stream)
        return None if found is None else found[1] * 0.5 ** ((now - found[0]) / HALF_LIFE_S)


def by_lag(spark: SparkSession, conf: Mapping[str, str], changed: Callable[[str], None]) -> ExecutorSizing | None:
    """The sizing that the conf of a driver says; None: Spark decides, or there are no executors."""
    if LEAST_EXECUTORS not in conf:
        return None
    return ExecutorSizing(SparkExecutors(spark), int(conf[LEAST_EXECUTORS]), int(conf[MOST_EXECUTORS]), changed)
