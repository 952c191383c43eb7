"""A condition is read as a whole, or refused with what would have been ignored."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.quality.arguments.columns import Columns
from lakeward.quality.arguments.conditions import condition_faults

COLUMNS = Columns({"country": "string", "id": "bigint", "d": "date", "geo.lat": "double", "ok": "boolean"})


def faults(condition: Any, parser: str | None = "great_expectations", columns: Columns | None = COLUMNS) -> list[str]:
    kwargs = {"row_condition": condition, "condition_parser": parser}
    return [each.text() for each in condition_faults(kwargs, columns)]


@pytest.mark.parametrize(
    ("condition", "ignored"),
    [
        ('col("country") == "XX" and col("id") > 100', 'and col("id") > 100'),
        ('col("country") == "XX" & col("id") > 100', '& col("id") > 100'),
        ('col("id") > 100.5.3', ".3"),
        ('col("id") > 100 OR TRUE', "OR TRUE"),
        ('col("country").notNull() and col("id") > 1', 'and col("id") > 1'),
        ('col("id") > 5; DROP', "; DROP"),
    ],
)
def test_what_would_be_ignored_is_reported(condition: str, ignored: str) -> None:
    (found,) = faults(condition, columns=None)
    assert f"would ignore `{ignored}`" in found and "condition_parser: spark" in found


@pytest.mark.parametrize("condition", ['col("country") == "XX"', ' col("id") >= -5 ', 'col("geo.lat").notNull()',
                                       'col("d") >= date("2026-01-01")', 'col("COUNTRY") != "a and b"'])  # fmt: skip
def test_one_comparison_is_read(condition: str) -> None:
    assert faults(condition) == []


@pytest.mark.parametrize(
    ("condition", "parser", "words"),
    [
        ("not col", "great_expectations", "not a condition of Great Expectations"),
        ('(col("id") > 1)', "great_expectations", "not a condition"),
        ('col("id") == "abc"', "great_expectations", "column id is BIGINT: 'abc'"),
        ('col("country") == 5', "great_expectations", "write it in quotes"),
        ('col("nope") == 5', "great_expectations", "no column 'nope'"),
        ("id > 5", "pandas", "cannot be read by Spark"),
        ("id >", "spark", "row_condition"),
        ('col("id") > 5', "spark", "add condition_parser"),
        ('col("id") > 5', None, "add condition_parser"),
        ("id > 5; x", "spark", "row_condition"),
        ("id = 'abc'", "spark", "column id is BIGINT: 'abc'"),
        ("'2026-13-01' < d", "spark", "column d is DATE"),
        ("id BETWEEN 1 AND 'x'", "spark", "column id is BIGINT"),
        ("id IN (1, 2, 'n/a')", None, "column id is BIGINT: 'n/a'"),
        ("country NOT IN ('a', NULL)", "spark", "comparison with null"),
        ("country = NULL", "spark", "comparison with null"),
        ("rand() > 0.5", "spark", "rand() gives another value"),
        ("id > 0 AND UUID () <> country", None, "uuid() gives another value"),
        ("id", "spark", "a condition is true or false; column id is BIGINT"),
        ("(id)", "spark", "a condition is true or false; column id is BIGINT"),
        ("nope = 1", "spark", "no column 'nope'"),
        ("sum(id) > 1 OR ok", "spark", "a condition is about one row; an aggregate is not allowed"),
        ("row_number() OVER (ORDER BY id) = 1", "spark", "a window function is not allowed"),
        ("explode(array(id)) = 1", "spark", "a generator is not allowed"),
        ({"type": "comparison", "column": {"name": "id"}, "operator": "==", "parameter": "x"}, None, "id is BIGINT"),
        ({"type": "comparison", "column": {"name": "id"}, "operator": "==", "parameter": None}, None, "with null"),
        ({"type": "or", "conditions": [{"type": "nullity", "column": {"name": "x"}, "is_null": True}]}, None, "'x'"),
        ({"type": "comparison", "column": {"name": "id"}, "operator": "IN", "parameter": [1, "x"]}, None, "ter.1"),
        ({"type": "pass_through", "pass_through_filter": "id = 'x'"}, None, "pass_through_filter: `id = 'x'`"),
    ],
)  # fmt: skip
def test_what_no_run_may_use_is_refused(condition: Any, parser: str | None, words: str) -> None:
    found = faults(condition, parser)
    assert found and words in found[0]


@pytest.mark.parametrize(
    "condition",
    [
        "id > 5 AND country = 'x' OR NOT ok",
        "`geo.lat` > 1 AND d >= '2026-01-01' AND d < current_date",
        "country IS NULL OR country <=> NULL",
        "d > date_sub(current_date(), 7) AND timestampadd(HOUR, 1, d) > now() - INTERVAL 1 DAY",
        "exists(split(country, ','), x -> x = 'a')",
        "id = '5'",
    ],
)
def test_conditions_that_spark_reads_are_left_alone(condition: str) -> None:
    assert faults(condition, "spark") == []
