"""Runs checks on one frame: computes their metrics together, asks GX for verdicts, samples failing rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.quality.engine.bridge.families import condition_of, covers, engine_of, is_unique, keys_of
from lakeward.quality.engine.bridge.passes import Metrics, no_server
from lakeward.quality.engine.bridge.results import SAMPLE, Failing, as_check, columns_of, repeated, samples
from lakeward.quality.engine.bridge.stated import family_of_statistics
from lakeward.quality.ranges.file_statistics import FileStatistics
from lakeward.quality.results.json_values import plain, sentence
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


log = structlog.get_logger(__name__)


def check(
    frame: DataFrame, checks: Sequence[ConfiguredCheck], footers: FileStatistics | None = None, *, sampled: bool = True
) -> dict[str, Check]:
    """The results of the checks whose metrics the bridge can compute, by check id. The others are left to stock GX.

    A check that GX refuses, or whose metrics fail, is an error of that check only.

    Args:
        frame: the rows.
        checks: the checks.
        footers: what metadata states about exactly these rows, if anything.
        sampled: whether to fetch failing rows.

    Raises:
        PySparkException: no server answers.
    """
    engine, columns = engine_of(frame), frame.schema.json()
    results: dict[str, Check] = {}
    covered: list[Needs] = []
    for check in checks:
        try:
            needs = Needs(check, engine, columns)
        except Exception as error:  # noqa: BLE001 - GX's models and registry raise any type for a wrong suite
            results[check.id] = check.blank(State.ERROR, _refusal(error))
            continue
        if all(covers(metric, engine) for metric in needs.all_metrics()):
            covered.append(needs)
    metrics = Metrics(engine, frame, (family_of_statistics(footers),) if footers is not None else ())
    metrics.compute(metric for needs in covered for metric in needs.all_metrics())
    for needs in covered:
        results[needs.configured.id] = _judge(needs, metrics, engine)
    if sampled:
        failed = [needs for needs in covered if results[needs.configured.id].state is State.FAIL]
        for name, rows in _rows(failed, metrics).items():
            results[name] = replace(results[name], sample=tuple(plain(row) for row in rows))
    return results


def least(frame: DataFrame, checks: Sequence[ConfiguredCheck], value: str) -> Any:
    """The least value, by one query, among the rows that fail any of the checks; None if it is unknown.

    Args:
        checks: checks that judge a row by its own values.
        value: SQL over the frame's columns and its table's hidden columns.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as fn

    engine, columns = engine_of(frame), frame.schema.json()
    metrics = Metrics(engine, frame)
    conditions = []
    for needs in (Needs(check, engine, columns) for check in checks):
        condition = condition_of(needs.counted)
        metrics.compute(metric for metric in needs.all_metrics() if metric.id in _under(condition))
        if condition.id in metrics.failed:
            return None
        fails, compute, accessor = metrics.values[condition.id]
        conditions.append(_within({**compute, **accessor}, fails, metrics))
    try:
        return frame.filter(reduce(or_, conditions)).agg(fn.min(fn.expr(value))).collect()[0][0]
    except PySparkException as error:
        if no_server(error):
            raise
        log.warning("oldest failing row unknown", error=_refusal(error))
        return None


def _within(domain: dict[str, Any], fails: Column, metrics: Metrics) -> Column:
    """The condition restricted to a metric's domain, for every row of the frame."""
    rows = metrics.domains.predicate(domain)
    return fails if rows is None else rows & fails


def _under(metric: Any) -> set[Any]:
    """The ids of a metric and of every metric it needs."""
    return {metric.id}.union(*(_under(dependency) for dependency in metric.metric_dependencies.values()))


def _judge(needs: Needs, metrics: Metrics, engine: Any) -> Check:
    reason = next((metrics.failed[metric.id] for metric in needs.metrics if metric.id in metrics.failed), None)
    if reason is not None:
        return needs.configured.blank(State.ERROR, reason)
    try:
        found = as_check(needs.configured, needs.verdict(metrics.values, engine))
    except Exception as error:  # noqa: BLE001 - as GX's own validator does: a verdict it cannot render is an error
        return needs.configured.blank(State.ERROR, _refusal(error))
    rows_read = any(metric.id in metrics.read for metric in needs.all_metrics())
    return replace(found, by="rows" if rows_read else "metadata")


def _rows(failed: Sequence[Needs], metrics: Metrics) -> dict[str, list[dict[str, Any]]]:
    """Samples of failing rows, for checks that judge by row. A check's result does not depend on its samples."""
    from pyspark.errors import PySparkException

    try:
        failing = {needs.configured.id: found for needs in failed if (found := _failing(needs, metrics)) is not None}
        return samples(metrics.domains.frame, failing, SAMPLE)
    except PySparkException as error:
        if no_server(error):
            raise
        log.warning("failing rows not sampled", error=_refusal(error))
        return {}


def _failing(needs: Needs, metrics: Metrics) -> Failing | None:
    metric = needs.counted
    if metric is None:
        return None
    fails, compute, accessor = metrics.values[condition_of(metric).id]
    domain = {**compute, **accessor}
    if is_unique(metric):
        fails = repeated(metrics.domains.rows(domain), keys_of(accessor), SAMPLE)
    if fails is None:
        return None
    about = columns_of(needs.configured.kwargs)
    return Failing(_within(domain, fails, metrics), metrics.values[metric.id] or 0, about)


_NO_PROVIDER = re.compile(r"No provider found for \S+ using SparkDFExecutionEngine")


def _refusal(error: Exception) -> str:
    """The error as one sentence. For pydantic every argument is listed, because its first line only counts them."""
    errors = getattr(error, "errors", None)
    if _NO_PROVIDER.search(str(error)):
        return "Great Expectations does not compute this expectation on Spark; write it as unexpected_rows_expectation"
    if not callable(errors):
        return sentence(str(error) or type(error).__name__)
    details = [f"{'.'.join(map(str, detail['loc'])) or 'kwargs'}: {detail['msg']}" for detail in errors()]
    return sentence(f"Great Expectations refuses its kwargs: {'; '.join(details)}")


FORM = {"result_format": "BASIC", "partial_unexpected_count": 0}
"""Counts and shares. The bridge fetches values itself, for failed checks only."""


Graph = tuple[Any, tuple[Any, ...], tuple[Any, ...]]
"""A GX expectation; its metrics, with every metric they need; the ids by which the expectation knows its metrics."""

_MOST = 5_000
_graphs: dict[tuple[str, str, str], Graph] = {}
"""Cache by expectation, arguments and columns: GX takes 5 ms to build each, and the result is always the same."""


class Needs:
    """One check: the GX expectation and the metrics its verdict needs.

    Args:
        configured: the check.
        engine: GX's execution engine for the frame.
        columns: the frame's schema as text.
    """

    def __init__(self, configured: ConfiguredCheck, engine: Any, columns: str) -> None:
        self.configured = configured
        key = (configured.expectation.type, repr((configured.kwargs, configured.exact)), columns)
        if key not in _graphs:
            if len(_graphs) >= _MOST:
                _graphs.clear()
            _graphs[key] = _graph(configured, engine)
        self.expectation, self.metrics, self._given = _graphs[key]

    def all_metrics(self) -> Iterator[Any]:
        """Every metric of the graph, each after those it needs; a metric may occur more than once."""

        def walk(metric: Any) -> Iterator[Any]:
            for dependency in metric.metric_dependencies.values():
                yield from walk(dependency)
            yield metric

        for metric in self.metrics:
            yield from walk(metric)

    @property
    def counted(self) -> Any | None:
        """The metric that counts the failing rows; None for a check that does not decide by row."""
        name = getattr(self.expectation, "map_metric", None)
        return next((metric for metric in self.metrics if metric.metric_name == f"{name}.unexpected_count"), None)

    def verdict(self, values: dict[Any, Any], engine: Any) -> Any:
        """GX's own result from the values of the metrics."""
        return self.expectation.metrics_validate(
            metrics={given: values[metric.id] for given, metric in zip(self._given, self.metrics, strict=True)},
            runtime_configuration=_runtime(),
            execution_engine=engine,
        )


def _graph(configured: ConfiguredCheck, engine: Any) -> Graph:
    from great_expectations.expectations.registry import get_expectation_impl
    from great_expectations.validator.validation_graph import ValidationGraph

    expectation = get_expectation_impl(configured.expectation.type)(**configured.kwargs)
    vars(expectation).update(configured.exact)  # the model makes a float of every number, and a day of a text
    dependencies = expectation.get_validation_dependencies(execution_engine=engine, runtime_configuration=_runtime())
    metrics = tuple(dependencies.get_metric_configurations())
    graph = ValidationGraph(execution_engine=engine)
    for metric in metrics:
        graph.build_metric_dependency_graph(metric, _runtime())
    given = tuple(metric.id for metric in metrics)
    for metric in metrics:
        _make_exact(metric, configured.exact, set())
    if getattr(expectation, "map_metric", None) is None:
        # It compares its bounds in Python, with values of rows: they come without a zone, in UTC. A check of each row
        # compares in Spark, and finds its metrics by its arguments.
        vars(expectation).update({name: _as_collected(value) for name, value in vars(expectation).items()})
    return expectation, metrics, given


def _as_collected(value: Any) -> Any:
    """An argument as Spark Connect returns such a value of a row: times have no zone."""
    if isinstance(value, list):
        return [_as_collected(each) for each in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _make_exact(metric: Any, exact: Mapping[str, Any], seen: set[int]) -> None:
    """Give a metric, and those it needs, the exact arguments: GX turns decimals into floats, and times into text."""
    if id(metric) in seen:
        return
    seen.add(id(metric))
    for dependency in metric.metric_dependencies.values():
        _make_exact(dependency, exact, seen)
    mine = {key: value for key, value in exact.items() if key in metric.metric_value_kwargs}
    if mine:
        metric.metric_value_kwargs.update(mine)
        values = f"{metric.id.metric_value_kwargs_id}{sorted(mine.items())!r}"
        metric._id = metric.id._replace(metric_value_kwargs_id=values)  # GX makes it of rounded values


def _runtime() -> dict[str, Any]:
    return {"result_format": dict(FORM)}  # GX writes into it
