"""Computes the metrics of many checks together: rounds of one aggregate, until nothing is left that can be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import Internal
from lakeward.quality.engine.bridge.families import Aggregate, Domains, Family, Free, Groups, Known, plan
from lakeward.quality.engine.timeouts import interrupted
from lakeward.quality.results.json_values import sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Raised when no server answers; whatever the server itself says about a statement comes as a kind of its own.
_NO_SERVER = ("SparkConnectGrpcException", "SparkConnectException", "RetriesExceeded")


class Metrics:
    """The metrics of one frame.

    Attributes:
        values: of each metric by GX's id; columns not yet run are values too.
        failed: why a metric has no value.
        read: the metrics that took rows.
    """

    def __init__(self, engine: Any, frame: DataFrame, first: tuple[Family, ...] = ()) -> None:
        self.domains = Domains(engine, frame)
        self.values: dict[Any, Any] = {}
        self.failed: dict[Any, str] = {}
        self.read: set[Any] = set()
        self._engine = engine
        self._first = first

    def compute(self, metrics: Iterable[Any]) -> None:
        """Give each of the metrics a value, or a reason why it has none.

        Args:
            metrics: GX's configurations, each after those it needs, all of a family.

        Raises:
            PySparkException: no server answers.
        """
        waiting = {metric.id: metric for metric in metrics if metric.id not in self.values}
        while waiting:
            plans = self._plans(waiting)
            self._run(plans)
            left = {key: each for key, each in waiting.items() if key not in self.values and key not in self.failed}
            if len(left) == len(waiting):  # another round would be the same
                names = sorted(each.metric_name for each in left.values())
                raise Internal(
                    f"No value can be computed for {', '.join(names)}",
                    why="a metric that they need is missing",
                    code="LW-5004",
                )
            waiting = left

    def _plans(self, waiting: Mapping[Any, Any]) -> dict[Any, Aggregate | Groups]:
        """What needs rows, after everything that needs none is done."""
        plans: dict[Any, Aggregate | Groups] = {}
        for key, metric in waiting.items():
            needs = [each.id for each in metric.metric_dependencies.values()]
            lost = next((self.failed[each] for each in needs if each in self.failed), None)
            if lost is not None:
                self.failed[key] = lost
                continue
            if any(each not in self.values for each in needs):
                continue
            try:
                planned = plan(metric, self.values, self.domains, self._first)
                if isinstance(planned, Free):
                    self.values |= self._engine.resolve_metrics((metric,), metrics=self.values)
                elif isinstance(planned, Known):
                    self.values[key] = planned.value
                else:
                    plans[key] = planned
            except Exception as error:  # noqa: BLE001 - GX and Spark raise what they like; it is this metric's answer
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
        """The values of all keys by one query; one that cannot be computed does not take the others with it."""
        from great_expectations.util import convert_to_json_serializable
        from pyspark.errors import PySparkException

        try:
            found = ask(keys)
        except PySparkException as error:
            if no_server(error):
                raise
            if len(keys) == 1 or interrupted(error):  # a part of it would not be given more time
                self.failed |= dict.fromkeys(keys, _reason(error))
                return
            middle = len(keys) // 2
            self._collect(keys[:middle], ask)
            self._collect(keys[middle:], ask)
            return
        self.values |= {key: convert_to_json_serializable(data=value) for key, value in zip(keys, found, strict=True)}


def no_server(error: Exception) -> bool:
    """Whether it says that no server answers, and nothing about the statement."""
    return type(error).__name__ in _NO_SERVER


def _row(frame: DataFrame) -> Sequence[Any]:
    return tuple(frame.collect()[0])


def _row_of(frame: DataFrame, column: Any, keys: Sequence[Any]) -> Sequence[Any]:
    return _row(frame.agg(column))


def _totals(groups: Sequence[Groups]) -> Sequence[Any]:
    """The totals of all groups by one query: a shuffle each, one answer."""
    from pyspark.sql import functions as fn

    frames = []
    for number, each in enumerate(groups):
        names = [f"k{index}" for index in range(len(each.keys))]
        keys = [fn.col(key).alias(name) for key, name in zip(each.keys, names, strict=True)]
        sizes = each.rows.select(*keys).groupBy(*names).agg(fn.count(fn.lit(1)).alias("size"))
        frames.append(sizes.agg(fn.lit(number).alias("number"), each.total(fn.col("size")).alias("total")))
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    return [row["total"] for row in sorted(together.collect(), key=lambda row: row["number"])]


def _reason(error: Exception) -> str:
    return sentence(str(error) or type(error).__name__)


AT_ONCE = 2


def together(session: Any, asks: Sequence[Callable[[], None]]) -> None:
    """Do all of them; what one raises is raised when the others have ended.

    Each thread has this one's tags, so that whoever interrupts this thread's statements interrupts theirs.
    """
    if len(asks) < 2:
        for ask in asks:
            ask()
        return
    tags = session.getTags()

    def tagged(ask: Callable[[], None]) -> None:
        session.clearTags()  # the thread's own, of what it did before
        for tag in tags:
            session.addTag(tag)
        ask()

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="together") as pool:
        started = [pool.submit(tagged, ask) for ask in asks]
    for each in started:
        each.result()
