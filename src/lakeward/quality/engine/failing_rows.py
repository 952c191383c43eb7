"""The condition of a failing row, as a Spark column: Great Expectations' own condition, taken before it runs.

Imports Great Expectations, which takes seconds: only for operations of a person.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import Refused
from lakeward.quality.arguments.columns import of_schema
from lakeward.quality.arguments.expectation import settle
from lakeward.quality.verdicts.waivers import name_of
from lakeward.spec.model.custom_expectations import OWN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakeward.spec.model.suite import Expectation

_FORM = {"result_format": {"result_format": "BOOLEAN_ONLY"}}
_WINDOW = re.compile(r"\bOVER \(|windowspecdefinition", re.IGNORECASE)
_NARROWING = ("row_condition", "condition_parser")
_TOGETHER = frozenset(
    f"expect_column_{name}"
    for name in (
        "values_to_be_unique",
        "values_to_be_increasing",
        "values_to_be_decreasing",
        "value_z_scores_to_be_less_than",
        "values_to_not_be_outliers",
    )
)
"""Expectations in which other rows decide whether a row fails."""
_OF_TYPES = frozenset(("expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"))
_OTHERS = "other rows decide whether a row fails it: which of them is wrong is unknown"


def one_by_one(type_: str, kwargs: Mapping[str, Any]) -> str:
    """Why its failing rows cannot be selected one by one, as a clause; empty if they can."""
    from great_expectations.expectations.expectation import ColumnMapExpectation
    from great_expectations.expectations.registry import get_expectation_impl

    if type_ in OWN:
        return "it judges the table's rows as a whole"
    if type_ in _OF_TYPES or not issubclass(get_expectation_impl(type_), ColumnMapExpectation):
        return "it judges the rows as a whole, or several columns at once"
    if type_ in _TOGETHER:
        return _OTHERS
    narrowed = any(kwargs.get(each) is not None for each in _NARROWING)
    return "it reads some of the rows only (row_condition)" if narrowed else ""


def condition(frame: DataFrame, expectation: Expectation) -> Column:
    """True for a row of `frame` that fails the check, false or null for others. Runs no query.

    Raises:
        Refused: the check does not judge single rows on one column.
    """
    import great_expectations as gx
    from great_expectations.expectations.registry import get_expectation_impl
    from great_expectations.validator.validation_graph import ValidationGraph

    implementation: Any = get_expectation_impl(expectation.type)
    if why := one_by_one(expectation.type, expectation.kwargs):
        raise _refused(expectation, why)
    context: Any = gx.get_context(mode="ephemeral")
    source = context.data_sources.add_spark("rows", persist=False)
    batch = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("rows")
    engine: Any = batch.get_batch({"dataframe": frame}).data.execution_engine
    engine.load_batch_data("rows", frame)  # as GX's own validator does: metrics read it from there
    settled = settle(expectation.type, expectation.kwargs, of_schema(frame.schema))
    if settled.faults:
        raise _refused(expectation, "; ".join(fault.text() for fault in settled.faults))
    made = implementation(**settled.kwargs)
    vars(made).update(settled.exact)
    needs = made.get_validation_dependencies(execution_engine=engine, runtime_configuration=dict(_FORM))
    graph = ValidationGraph(execution_engine=engine)
    for metric in needs.get_metric_configurations():
        graph.build_metric_dependency_graph(metric, dict(_FORM))
    condition_name = f"{implementation.map_metric}.condition"
    found = next((each for metric in needs.get_metric_configurations() for each in _all(metric, condition_name)), None)
    if found is None:
        raise _refused(expectation, "Great Expectations has no condition on a single row for it")
    values: dict[Any, Any] = {}
    for each in _in_order(found):
        if each.id not in values:
            values |= engine.resolve_metrics((each,), metrics=values)
    fails: Column = values[found.id][0]
    if _WINDOW.search(str(fails)):
        raise _refused(expectation, _OTHERS)
    return fails


def _all(metric: Any, name: str) -> list[Any]:
    """The metrics of this name in a metric's dependency graph."""
    own = [metric] if metric.metric_name == name else []
    return own + [found for dependency in metric.metric_dependencies.values() for found in _all(dependency, name)]


def _in_order(metric: Any) -> list[Any]:
    """A metric after every metric it needs."""
    return [found for dependency in metric.metric_dependencies.values() for found in _in_order(dependency)] + [metric]


def _refused(expectation: Expectation, why: str) -> Refused:
    return Refused(
        f"Cannot quarantine the rows that fail {name_of(expectation)}",
        why=why,
        next="correct or delete them in the lake (lakeward sql --write STATEMENT), or waive the check",
        code="LW-5005",
    )
