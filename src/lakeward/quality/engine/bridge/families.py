"""Metric families: how each GX metric is computed (without rows, in one aggregate, by a shuffle), and of which rows.

A family recognizes its metrics by their names in Great Expectations (GX). A check with a metric of no family is run by
stock GX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from lakeward.quality.arguments.columns import of_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_RECORDER = "lakeward-recorder"


class Recorder:
    """Replaces a frame where Great Expectations filters it, and records the predicates instead of filtering."""

    def __init__(self, schema: Any, predicates: tuple[Column, ...] = ()) -> None:
        self.schema = schema
        self.predicates = predicates

    def filter(self, condition: Column | str) -> Recorder:
        """Record one more predicate."""
        from pyspark.sql import functions as fn

        made: Any = fn.expr(condition) if isinstance(condition, str) else condition
        return Recorder(self.schema, (*self.predicates, made))


def engine_of(frame: DataFrame) -> Any:
    """A GX engine for this frame only: its cache ends with it, and nothing is persisted."""
    from great_expectations.execution_engine.sparkdf_batch_data import SparkDFBatchData
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

    engine = SparkDFExecutionEngine(persist=False, spark=frame.sparkSession)
    for name, rows in ((_RECORDER, Recorder(frame.schema)), ("frame", frame)):  # the one loaded last is the active one
        engine.load_batch_data(name, SparkDFBatchData(engine, rows))
    return engine


class Domains:
    """The rows of each metric of one frame."""

    def __init__(self, engine: Any, frame: DataFrame) -> None:
        self.frame = frame
        self._engine = engine

    def predicate(self, domain: Mapping[str, Any]) -> Column | None:
        """The condition a row must satisfy to count; None for every row."""
        recorded = self._engine.get_domain_records({**domain, "batch_id": _RECORDER})
        return reduce(and_, recorded.predicates) if recorded.predicates else None

    def rows(self, domain: Mapping[str, Any]) -> DataFrame:
        """The frame's rows of the domain."""
        predicate = self.predicate(domain)
        return self.frame if predicate is None else self.frame.filter(predicate)


@dataclass(frozen=True)
class Known:
    """A value that needs no rows."""

    value: Any


@dataclass(frozen=True)
class Free:
    """GX computes it without a Spark job: an unevaluated column, the schema, or a number derived from other numbers."""


@dataclass(frozen=True)
class Aggregate:
    """One column of the one aggregate. `rows` restricts the rows; None means every row."""

    column: Column
    rows: Column | None = None


@dataclass(frozen=True)
class Groups:
    """One shuffle: rows grouped by equal keys; `total` computes the metric from the group sizes."""

    rows: DataFrame
    keys: tuple[str, ...]
    total: Callable[[Column], Column]


Plan = Known | Free | Aggregate | Groups
Values = Mapping[Any, Any]
Family = Callable[[Any, Values, Domains], Plan | None]
"""How to compute a metric from the values of the metrics it needs; None if it belongs to another family."""

_PARTIAL = "metric_partial_fn"
_CONDITION = "unexpected_condition"


def condition_of(metric: Any) -> Any:
    """GX's metric with the condition of a failing row, for metrics that count failing rows; else None."""
    needs = metric.metric_dependencies
    if _CONDITION in needs:
        return needs[_CONDITION]
    return needs[_PARTIAL].metric_dependencies.get(_CONDITION) if _PARTIAL in needs else None


def free(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """Unevaluated columns, the schema, and metrics derived from other metrics."""
    name = metric.metric_name
    return Free() if name in _FREE or name.endswith((".condition", ".map", ".aggregate_fn")) else None


def summed(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """The mean and the sum of a column whose name has a dot: GX looks its type up by a name that it has quoted."""
    from pyspark.sql import functions as fn

    function = {"column.mean.aggregate_fn": fn.mean, "column.sum.aggregate_fn": fn.sum}.get(metric.metric_name)
    column = str(metric.metric_domain_kwargs.get("column"))
    if function is None or "." not in column:
        return None
    kind = of_schema(domains.frame.schema).resolve(column).kind
    if not kind.startswith(_NUMBERS):
        raise TypeError(f"{column} is {kind}, not a number")
    whole = function is fn.sum and kind in _NUMBERS[:4]  # GX: the sum of whole numbers may not overflow
    chosen = fn.col(column).cast("double") if whole else fn.col(column)
    return Known((function(chosen), dict(metric.metric_domain_kwargs), {"column": column}))


def failing_values(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """Known to be empty: rows of failed checks are fetched later, for all of them at once."""
    return Known([]) if metric.metric_name.endswith(".unexpected_values") else None


def unique(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """Rows whose value, or combination of values, occurs more than once."""
    from pyspark.sql import functions as fn

    if not is_unique(metric):
        return None
    _, compute, accessor = values[condition_of(metric).id]
    return Groups(
        domains.rows({**compute, **accessor}),
        keys_of(accessor),
        lambda size: fn.coalesce(fn.sum(fn.when(size > 1, size)), fn.lit(0)),
    )


def distinct(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """The number of distinct values: of all, of those outside a set, or of those of a set that are missing.

    In the one aggregate each such metric would multiply every row. GX would also return the values themselves, perhaps
    the whole column: they are left out, as when GX is asked for no examples.
    """
    from pyspark.sql import functions as fn

    if metric.metric_name not in _DISTINCT:
        return None
    name = metric.metric_name.removeprefix(_VALUES)
    if name in ("not_in_set", "missing_from_column"):
        return Known([])
    column, value_set = metric.metric_domain_kwargs["column"], metric.metric_value_kwargs.get("value_set") or []
    rows = domains.rows(metric.metric_domain_kwargs).filter(fn.col(column).isNotNull())
    if name == "missing_from_column.count":
        if not value_set:
            return Known(0)
        rows = rows.filter(fn.col(column).isin(value_set))
        return Groups(rows, (column,), lambda size: fn.lit(len(value_set)) - fn.count(size))
    if name == "not_in_set.count" and value_set:
        rows = rows.filter(~fn.col(column).isin(value_set))
    return Groups(rows, (column,), lambda size: fn.count(size))


def failing_rows(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """The number of rows that meet GX's condition of a failing row, on one or more columns; and the rows examined."""
    from pyspark.sql import functions as fn

    condition = condition_of(metric)
    if condition is None:
        return None
    fails, compute, accessor = values[condition.id]
    if metric.metric_name.endswith(".filtered_row_count"):
        return Aggregate(_count(domains.predicate({**compute, **accessor})))
    if not metric.metric_name.endswith(".unexpected_count"):
        return None
    single = _PARTIAL in metric.metric_dependencies
    rows = domains.predicate(compute if single else {**compute, **accessor})
    one = fn.when(fails, 1).otherwise(0)
    total = fn.sum(one if rows is None else fn.when(rows, one))
    # Without any row GX returns None for a single column (an aggregate) and 0 for several (a count()).
    return Aggregate(total if single else fn.coalesce(total, fn.lit(0)))


def row_count(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """Rows of the table."""
    if metric.metric_name != "table.row_count":
        return None
    return Aggregate(_count(domains.predicate(metric.metric_domain_kwargs)))


def aggregated(metric: Any, values: Values, domains: Domains) -> Plan | None:
    """Every metric that GX computes by an aggregate of its own."""
    if _PARTIAL not in metric.metric_dependencies:
        return None
    column, compute, _ = values[metric.metric_dependencies[_PARTIAL].id]
    if metric.metric_name in _PAST_NULLS:
        compute = {key: value for key, value in compute.items() if key != "filter_conditions"}
    return Aggregate(column, domains.predicate(compute))


FAMILIES: tuple[Family, ...] = (summed, free, failing_values, unique, distinct, failing_rows, row_count, aggregated)
"""Tried in this order; the first that returns a plan is used."""


def plan(metric: Any, values: Values, domains: Domains, first: tuple[Family, ...] = ()) -> Plan:
    """How to compute a metric for which `covers` is true. The families in `first` are tried first."""
    for family in (*first, *FAMILIES):
        made = family(metric, values, domains)
        if made is not None:
            return made
    raise AssertionError(f"no family computes {metric.metric_name}")


def covers(metric: Any, engine: Any) -> bool:
    """Whether a family can compute the metric, decided before any query."""
    from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
    from great_expectations.expectations.registry import get_metric_provider

    name, condition = metric.metric_name, condition_of(metric)
    if condition is not None:
        _, provider = get_metric_provider(condition.metric_name, engine)
        by_window = getattr(provider, "metric_fn_type", None) is MetricPartialFunctionTypes.WINDOW_CONDITION_FN
        return not by_window or condition.metric_name in _UNIQUE
    named = name in (*_FREE, *_DISTINCT) or name.endswith((".condition", ".map", ".aggregate_fn", ".unexpected_values"))
    return named or _PARTIAL in metric.metric_dependencies


_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_VALUES = "column.distinct_values."
_DISTINCT = tuple(
    f"{_VALUES}{name}"
    for name in ("count", "not_in_set", "not_in_set.count", "missing_from_column", "missing_from_column.count")
)
_FREE = (
    "table.columns",
    "table.column_types",
    "table.column_count",
    "column.non_null_proportion",
    "column.unique_proportion",
)
# Aggregates that ignore nulls by themselves. GX filters nulls first, which takes one pass for each column.
_PAST_NULLS = tuple(f"column.{name}" for name in ("max", "min", "mean", "sum", "standard_deviation", "non_null_count"))
# GX computes these by a window over all rows; the family `unique` computes them by a shuffle.
_UNIQUE = ("column_values.unique.condition", "compound_columns.unique.condition")


def is_unique(metric: Any) -> bool:
    """Whether the metric counts rows that occur more than once."""
    name = metric.metric_name
    return name.endswith(".unexpected_count") and name.replace(".unexpected_count", ".condition") in _UNIQUE


def keys_of(accessor: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns a metric of GX is about."""
    if "column" in accessor:
        return (str(accessor["column"]),)
    return tuple(str(column) for column in accessor["column_list"])


def _count(rows: Column | None) -> Column:
    from pyspark.sql import functions as fn

    return fn.count(fn.lit(1) if rows is None else fn.when(rows, 1))
