"""Computes the metrics of many checks together: rounds of one aggregate, until every metric has a value or an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import Internal
from lakeward.quality.engine.bridge.families import Aggregate, Domains, Family, Free, Groups, Known, plan
from lakeward.quality.engine.collecting import collected
from lakeward.quality.engine.timeouts import interrupted
from lakeward.quality.results.json_values import sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Raised when no server answers. Errors about a statement have other types.
ENDING = re.compile("stopped SparkContext|SparkContext was shut ?down", re.IGNORECASE)
"""What a server says of every statement between a fatal error, such as a stack that is too deep, and its end."""
_NO_SERVER = ("SparkConnectGrpcException", "SparkConnectException", "RetriesExceeded")


class Metrics:
    """The metrics of one frame.

    Attributes:
        values: by the metric's GX id; an unevaluated column is a value too.
        failed: why a metric has no value.
        read: the metrics for which rows were read.
    """

    def __init__(self, engine: Any, frame: DataFrame, first: tuple[Family, ...] = ()) -> None:
        self.domains = Domains(engine, frame)
        self.values: dict[Any, Any] = {}
        self.failed: dict[Any, str] = {}
        self.read: set[Any] = set()
        self._engine = engine
        self._first = first

    def compute(self, metrics: Iterable[Any]) -> None:
        """Give each metric a value, or a reason why it has none.

        Args:
            metrics: GX's configurations, each after those it needs; a family covers each.

        Raises:
            PySparkException: no server answers.
        """
        waiting = {metric.id: metric for metric in metrics if metric.id not in self.values}
        while waiting:
            plans = self._plans(waiting)
            self._run(plans)
            remaining = {
                key: each for key, each in waiting.items() if key not in self.values and key not in self.failed
            }
            if len(remaining) == len(waiting):  # another round would be the same
                names = sorted(each.metric_name for each in remaining.values())
                raise Internal(
                    f"Cannot compute {', '.join(names)}",
                    why="A metric that they need is missing.",
                    code="LW-5004",
                )
            waiting = remaining

    def _plans(self, waiting: Mapping[Any, Any]) -> dict[Any, Aggregate | Groups]:
        """The plans of metrics that need rows, after computing every metric that needs none."""
        plans: dict[Any, Aggregate | Groups] = {}
        for key, metric in waiting.items():
            needs = [dependency.id for dependency in metric.metric_dependencies.values()]
            reason = next((self.failed[metric] for metric in needs if metric in self.failed), None)
            if reason is not None:
                self.failed[key] = reason
                continue
            if any(metric not in self.values for metric in needs):
                continue
            try:
                planned = plan(metric, self.values, self.domains, self._first)
                if isinstance(planned, Free):
                    self.values |= self._engine.resolve_metrics((metric,), metrics=self.values)
                elif isinstance(planned, Known):
                    self.values[key] = planned.value
                else:
                    plans[key] = planned
            except Exception as error:  # noqa: BLE001 - GX and Spark raise any type; it is the error of this metric
                self.failed[key] = _reason(error)
        return plans

    def _run(self, plans: Mapping[Any, Aggregate | Groups]) -> None:
        if not plans:
            return
        self.read |= set(plans)
        aggregates = {key: each for key, each in plans.items() if isinstance(each, Aggregate)}
        whole = {key: each.column for key, each in aggregates.items() if each.rows is None}
        groups = {key: each for key, each in plans.items() if isinstance(each, Groups)}
        asks: list[tuple[Sequence[Any], Callable[[Sequence[Any]], Sequence[Any]]]] = [
            (list(whole), lambda keys: _row(self.domains.frame.agg(*(whole[key] for key in keys)))),
            (list(groups), lambda keys: _totals([groups[key] for key in keys])),
        ]
        for key, each in aggregates.items():
            if each.rows is not None:
                asks.append(([key], partial(_row_of, self.domains.frame.filter(each.rows), each.column)))
        session = self.domains.frame.sparkSession
        together(session, [partial(self._collect, keys, ask) for keys, ask in asks if keys])

    def _collect(self, keys: Sequence[Any], ask: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """Fetch the values of all keys by one query. On an error the keys are split: one bad metric fails alone."""
        from great_expectations.util import convert_to_json_serializable
        from pyspark.errors import PySparkException

        try:
            found = ask(keys)
        except PySparkException as error:
            if no_server(error):
                raise
            if len(keys) == 1 or interrupted(error):  # a smaller query would get no more time
                self.failed |= dict.fromkeys(keys, _reason(error))
                return
            middle = len(keys) // 2
            self._collect(keys[:middle], ask)
            self._collect(keys[middle:], ask)
            return
        self.values |= {key: convert_to_json_serializable(data=value) for key, value in zip(keys, found, strict=True)}


def no_server(error: Exception) -> bool:
    """Whether the error means that no server answers, or none will in a moment, not that a statement failed."""
    return type(error).__name__ in _NO_SERVER or ENDING.search(str(error)) is not None


def _row(frame: DataFrame) -> Sequence[Any]:
    return tuple(collected(frame)[0])


def _row_of(frame: DataFrame, column: Any, keys: Sequence[Any]) -> Sequence[Any]:
    return _row(frame.agg(column))


def _totals(groups: Sequence[Groups]) -> Sequence[Any]:
    """The totals of all groups by one query, with one shuffle each."""
    from pyspark.sql import functions as fn

    frames = []
    for number, group in enumerate(groups):
        names = [f"k{index}" for index in range(len(group.keys))]
        keys = [fn.col(key).alias(name) for key, name in zip(group.keys, names, strict=True)]
        sizes = group.rows.select(*keys).groupBy(*names).agg(fn.count(fn.lit(1)).alias("size"))
        frames.append(sizes.agg(fn.lit(number).alias("number"), group.total(fn.col("size")).alias("total")))
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    return [row["total"] for row in sorted(together.collect(), key=lambda row: row["number"])]


def _reason(error: Exception) -> str:
    return sentence(str(error) or type(error).__name__)


AT_ONCE = 2


def together(session: Any, asks: Sequence[Callable[[], None]]) -> None:
    """Run all callables, `AT_ONCE` at a time. The first error is raised after all have ended.

    Each thread gets the tags of the calling thread, so that interrupting by tag also interrupts its statements.
    """
    if len(asks) < 2:
        for ask in asks:
            ask()
        return
    tags = session.getTags()

    def tagged(ask: Callable[[], None]) -> None:
        session.clearTags()  # the pool thread's tags from an earlier callable
        for tag in tags:
            session.addTag(tag)
        ask()

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="together") as pool:
        started = [pool.submit(tagged, ask) for ask in asks]
    for future in started:
        future.result()
