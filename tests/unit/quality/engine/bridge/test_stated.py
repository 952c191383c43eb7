"""What footers state about a metric, and what they leave to the rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lakeward.quality.engine.bridge.families import Known
from lakeward.quality.engine.bridge.stated import value_of
from lakeward.quality.ranges.file_statistics import ColumnFacts, FileStatistics

FOOTERS = FileStatistics(
    100,
    {
        "n": ColumnFacts(nulls=10, bounded=True, low=-3, high=7),
        "text": ColumnFacts(nulls=4),
        "void": ColumnFacts(nulls=100, bounded=True),
        "huge": ColumnFacts(nulls=0, bounded=True, low=0, high=2**53),
        "zero": ColumnFacts(nulls=0, bounded=True, low=0, high=0),
        "day": ColumnFacts(nulls=0, bounded=True, low="2026-01-01", high="2026-02-01"),
    },
)
BETWEEN = "column_values.between.unexpected_count"


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("table.row_count", None, 100),
        ("column_values.nonnull.unexpected_count", "n", 10),
        ("column_values.null.unexpected_count", "n", 90),
        ("column.non_null_count", "text", 96),
        ("column.min", "n", -3),
        ("column.max", "n", 7),
        ("column.max", "void", None),
    ],
)
def test_what_footers_state(name: str, column: str | None, value: Any) -> None:
    assert value_of(name, column, {}, FOOTERS) == Known(value)


@pytest.mark.parametrize("name", ["column.min", "column.max", BETWEEN])
@pytest.mark.parametrize("column", ["text", "gone"])
def test_what_they_do_not_state(name: str, column: str) -> None:
    assert value_of(name, column, {"min_value": 0}, FOOTERS) is None


@pytest.mark.parametrize("name", ["column_values.in_set.unexpected_count", "column.mean", "column_values.unique.x"])
def test_other_metrics_are_left_to_the_rows(name: str) -> None:
    assert value_of(name, "n", {}, FOOTERS) is None


@pytest.mark.parametrize(
    ("kwargs", "inside"),
    [
        ({"min_value": -3, "max_value": 7}, True),
        ({"min_value": -3.0}, True),
        ({"max_value": 7}, True),
        ({"min_value": -3, "strict_min": True}, False),
        ({"max_value": 7, "strict_max": True}, False),
        ({"min_value": -2}, False),
        ({"max_value": 6}, False),
        ({"max_value": math.nan}, False),
        ({"max_value": "9"}, False),
        ({}, False),
    ],
)
def test_values_within_are_proven_by_the_bounds_and_others_are_left_to_the_rows(kwargs, inside: bool) -> None:
    assert (value_of(BETWEEN, "n", kwargs, FOOTERS) == Known(0)) is inside


@pytest.mark.parametrize("column", ["void", "huge", "day"])
def test_bounds_that_compare_otherwise_in_spark_prove_nothing(column: str) -> None:
    assert value_of(BETWEEN, column, {"min_value": 0, "max_value": 2**60}, FOOTERS) is None


def test_a_limit_that_is_no_number_is_left_to_spark_to_refuse() -> None:
    assert value_of(BETWEEN, "zero", {"min_value": False}, FOOTERS) is None
