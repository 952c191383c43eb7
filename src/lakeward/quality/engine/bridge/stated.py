"""Metrics taken from file statistics, so that no row is read for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.quality.engine.bridge.families import Domains, Family, Known, Plan, Values
from lakeward.quality.ranges.file_statistics import ColumnFacts, FileStatistics

_LARGEST = 2**53  # above it Spark compares as double and may differ from Python


def family_of_statistics(footers: FileStatistics) -> Family:
    """The family of metrics that these file statistics contain."""

    def family(metric: Any, values: Values, domains: Domains) -> Plan | None:
        domain = metric.metric_domain_kwargs
        if any(domain.get(key) for key in ("row_condition", "filter_conditions", "table")):
            return None  # restricted to some of the rows
        found = value_of(metric.metric_name, domain.get("column"), metric.metric_value_kwargs, footers)
        return None if found is None else Known(_as_gx_keeps_it(found.value))

    return family


def value_of(name: str, column: str | None, kwargs: Mapping[str, Any], footers: FileStatistics) -> Known | None:
    """The value of the metric `name` over every row; None when the statistics do not contain it."""
    if name == "table.row_count":
        return Known(footers.rows)
    facts = footers.columns.get(column or "", ColumnFacts())
    if facts.nulls is not None:
        if name == "column_values.nonnull.unexpected_count":
            return Known(facts.nulls)
        if name in ("column_values.null.unexpected_count", "column.non_null_count"):
            return Known(footers.rows - facts.nulls)
    if not facts.bounded:
        return None
    if name in ("column.min", "column.max"):
        return Known(facts.low if name == "column.min" else facts.high)
    if name == "column_values.between.unexpected_count" and _inside(facts, kwargs):
        return Known(0)
    return None


def _inside(facts: ColumnFacts, kwargs: Mapping[str, Any]) -> bool:
    """Whether every value is within the limits; only for numbers, which compare the same in Python and Spark."""
    if facts.low is None:
        return False
    least, greatest = kwargs.get("min_value"), kwargs.get("max_value")
    numbers = [each for each in (facts.low, facts.high, least, greatest) if each is not None]
    if any(
        isinstance(number, bool) or not isinstance(number, int | float) or abs(number) >= _LARGEST for number in numbers
    ):
        return False
    if least is None and greatest is None:
        return False  # GX refuses it
    above = least is None or (facts.low > least if kwargs.get("strict_min") else facts.low >= least)
    below = greatest is None or (facts.high < greatest if kwargs.get("strict_max") else facts.high <= greatest)
    return bool(above and below)


def _as_gx_keeps_it(value: Any) -> Any:
    from great_expectations.util import convert_to_json_serializable

    return convert_to_json_serializable(data=value)
