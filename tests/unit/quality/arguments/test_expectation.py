"""The arguments of an expectation against the columns: names, literals, nulls and conditions are settled or refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakeward.quality.arguments.columns import Columns, Unresolved
from lakeward.quality.arguments.expectation import settle

COLUMNS = Columns(
    {"n": "int", "code": "string", "d": "date", "geo.lat": "double", "orderId": "bigint", "price": "decimal(38,0)",
     "s": "struct<a:int>", "tags": "array<string>", "Twice": "int", "twice": "int", "a`b": "int"},
    {"s.a": "int", "s.`x.y`": "int", "s.In.`p.q`": "struct<a:int>", "s.`x.y`.z": "int", "s.`b``t`": "int"},
)  # fmt: skip
C = "expect_column_"


def faults(kind: str, columns: Columns | None = COLUMNS, **kwargs: Any) -> list[str]:
    return [each.text() for each in settle(kind, kwargs, columns).faults]


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("n", "n"),
        ("N", "n"),
        ("orderid", "orderId"),
        ("geo.lat", "`geo.lat`"),
        ("`geo.lat`", "`geo.lat`"),
        ("GEO.LAT", "`geo.lat`"),
        ("s.a", "s.a"),
        ("S.A", "s.a"),
        ("s.x.y", "s.`x.y`"),
        ("`s`.`x.y`", "s.`x.y`"),
        ("S.in.P.q", "s.In.`p.q`"),
        ("twice", "twice"),
        ("Twice", "Twice"),
    ],
)
def test_a_name_means_one_column_for_every_expectation(written: str, spelled: str) -> None:
    assert COLUMNS.resolve(written).spelled == spelled
    kinds = ("to_exist", "values_to_not_be_null", "distinct_values_to_be_in_set", "mean_to_be_between")
    assert {settle(C + kind, {"column": written}, COLUMNS).kwargs["column"] for kind in kinds} == {spelled}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("orderis", "no column 'orderis'"),
        ("TWICE", "any of Twice, twice"),
        ("a`b", "backtick"),
        ("s.b", "no column"),
        ("s.x.y.z", "cannot read the field s.`x.y`.z, because of a dot"),
        ("s.b`t", "cannot read the field s.`b``t`"),
    ],
)
def test_a_name_of_no_one_column_is_refused(written: str, words: str) -> None:
    with pytest.raises(Unresolved, match=words):
        COLUMNS.resolve(written)
    assert words in faults(C + "values_to_not_be_null", column=written)[0]


def test_checks_of_the_schema_fail_and_are_no_errors_for_a_column_that_is_missing() -> None:
    assert faults(C + "to_exist", column="nowhere") == []
    assert faults("expect_table_columns_to_match_set", column_set=["N", "nowhere"]) == []
    settled = settle("expect_table_columns_to_match_set", {"column_set": ["N", "GEO.lat", "x"]}, COLUMNS)
    assert settled.kwargs["column_set"] == ["n", "`geo.lat`", "x"]


@pytest.mark.parametrize(
    ("kind", "kwargs", "words"),
    [
        ("values_to_be_in_set", {"column": "n", "value_set": [1, "n/a"]}, "value_set.1: column n is INT: 'n/a'"),
        ("values_to_not_be_in_set", {"column": "n", "value_set": ["n/a"]}, "value_set.0: column n is INT"),
        ("distinct_values_to_equal_set", {"column": "n", "value_set": ["x"]}, "value_set.0: column n is INT"),
        ("most_common_value_to_be_in_set", {"column": "code", "value_set": [1]}, "write it in quotes"),
        ("values_to_be_between", {"column": "d", "min_value": 5}, "min_value: column d is DATE: 5 is not a day"),
        ("values_to_be_between", {"column": "tags", "max_value": 5}, "max_value: column tags is ARRAY:"),
        ("max_to_be_between", {"column": "d", "max_value": "soon"}, "max_value: column d is DATE"),
        ("values_to_be_between", {"column": "price", "min_value": "9", "max_value": 8}, "more than max_value"),
        (
            "values_to_be_between",
            {"column": "d", "min_value": "9999-12-31T23:59:59Z", "max_value": "2026-01-01"},
            "max_value (2026-01-01) are a day and a time: write both as days, or both as times",
        ),
        (
            "quantile_values_to_be_between",
            {"column": "n", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1, "x"]]}},
            "quantile_ranges.value_ranges.0.1: column n is INT",
        ),
        (
            "pair_values_to_be_in_set",
            {"column_A": "n", "column_B": "code", "value_pairs_set": [[1, "a"], ["b", "a"]]},
            "value_pairs_set.1.0: column n is INT",
        ),
    ],
)
def test_a_literal_that_is_no_value_of_the_column_is_refused(kind: str, kwargs: dict[str, Any], words: str) -> None:
    found = faults(C + kind, **kwargs)
    assert len(found) == 1 and words in found[0]
    if "more than" not in words:
        assert faults(C + kind, None, **kwargs) == [], "without the columns nothing is known"


@pytest.mark.parametrize("kind", ["pair_values_a_to_be_greater_than_b", "pair_values_to_be_equal"])
def test_columns_that_spark_would_cast_to_compare_them_are_refused(kind: str) -> None:
    found = faults(C + kind, column_A="n", column_B="code")
    assert len(found) == 1 and "column n is INT and column code is STRING, which are not compared" in found[0]
    assert "column d is DATE" in faults(C + kind, column_A="d", column_B="price")[0]
    assert faults(C + kind, column_A="n", column_B="price") == []
    assert faults(C + kind, None, column_A="n", column_B="code") == []


@pytest.mark.parametrize("quantile", [2, -0.1, "0.5", True])
def test_a_quantile_is_from_0_to_1(quantile: Any) -> None:
    ranges = {"quantiles": [0, quantile], "value_ranges": [[0, 1], [0, 1]]}
    (found,) = faults(C + "quantile_values_to_be_between", None, column="n", quantile_ranges=ranges)
    assert "quantile_ranges.quantiles.1: a quantile is a number from 0 to 1" in found


def test_nulls_have_no_effect_where_pandas_gives_them_none_and_are_refused_elsewhere() -> None:
    for kind in ("values_to_be_in_set", "values_to_not_be_in_set", "distinct_values_to_be_in_set"):
        settled = settle(C + kind, {"column": "code", "value_set": ["paid", None]}, None)
        assert (settled.kwargs["value_set"], settled.faults, len(settled.warnings)) == (["paid"], [], 1)
    for kind in ("distinct_values_to_contain_set", "distinct_values_to_equal_set", "most_common_value_to_be_in_set"):
        assert "null is no member" in faults(C + kind, None, column="code", value_set=["paid", None])[0]
    pairs = faults(C + "pair_values_to_be_in_set", None, column_A="a", column_B="b", value_pairs_set=[[1, None]])
    assert "value_pairs_set.0.1: null is no member" in pairs[0]


def test_what_the_model_would_round_is_kept_beside_it() -> None:
    wide = "12345678901234567890123456789012345678"
    settled = settle(C + "values_to_be_between", {"column": "price", "min_value": wide}, COLUMNS)
    assert settled.exact == {"min_value": Decimal(wide)}
    text = settle(C + "values_to_be_between", {"column": "code", "min_value": "10"}, COLUMNS)
    assert text.exact == {"min_value": "10"}


def test_queries_and_own_checks_are_judged_too() -> None:
    query = "SELECT * FROM {batch} WHERE n = 'abc' OR code NOT IN ('a', NULL)"
    found = faults("unexpected_rows_expectation", unexpected_rows_query=query)
    assert ["n is INT" in found[0], "comparison with null" in found[1], len(found)] == [True, True, 2]
    joined = "SELECT * FROM {batch} JOIN lake.x.y USING (id) WHERE n = 'abc'"
    assert faults("unexpected_rows_expectation", unexpected_rows_query=joined) == [], "n may be another table's"
    (unknown,) = settle("expect_keys_to_be_in_reference", {"columns": ["cod"], "reference": "n.t"}, COLUMNS).faults
    assert "did you mean code?" in unknown.text()
    sums = faults("expect_multicolumn_sum_to_equal", column_list=["n", "geo.lat"], sum_total=3)
    assert "column_list.1" in sums[0] and "has a dot" in sums[0]
    assert faults("expect_totals_to_equal_other_table", by={"nope": "x"})[0].startswith("by.nope:")
    assert faults("expect_freshness_as_usual", column="D") == []


@pytest.mark.parametrize(
    ("kind", "column", "words"),
    [
        ("values_to_match_regex", "tags", "is ARRAY, and this check is about text: use unexpected_rows"),
        ("value_lengths_to_equal", "s", "is STRUCT, and this check is about text: name a field of it, or use"),
        ("mean_to_be_between", "code", "is STRING, and this check is about numbers"),
        ("sum_to_be_between", "d", "is DATE, and this check is about numbers"),
        ("median_to_be_between", "flag", "is BOOLEAN, and this check is about numbers"),
        ("values_to_be_between", "flag", "is BOOLEAN, which has no order"),
    ],
)
def test_a_type_that_a_check_cannot_be_about_is_refused(kind: str, column: str, words: str) -> None:
    columns = Columns({**COLUMNS.top, "flag": "boolean"}, COLUMNS.nested)
    (found,) = faults(C + kind, columns, column=column, min_value=True)
    assert found.startswith("column: ") and words in found


def test_a_sum_of_text_is_left_to_spark_which_casts_it() -> None:
    assert faults(C + "sum_to_be_between", column="code", min_value=0) == []


@pytest.mark.parametrize("value", [{"$PARAMETER": "low"}, {"a": 1}])
def test_what_is_filled_in_at_run_time_is_no_value(value: Any) -> None:
    assert "value" in faults(C + "values_to_be_between", column="n", min_value=value)[0]
    assert "write" in faults(C + "values_to_be_in_set", column="n", value_set=value)[0]
    assert faults("expect_table_row_count_to_equal", None, value={"$PARAMETER": "x"}) == [
        "value: a $PARAMETER has no value here: write the value"
    ]


def test_text_without_a_digit_is_no_bound() -> None:
    assert (
        "bounds of Great Expectations are numbers"
        in faults(C + "values_to_be_between", column="code", min_value="a")[0]
    )
    assert faults(C + "values_to_be_between", column="code", min_value="01") == []


@pytest.mark.parametrize("value", [".inf", "-.inf", "Infinity", "-inf", float("inf")])
def test_infinity_is_no_bound(value: Any) -> None:
    for kind, kwargs in (
        (C + "values_to_be_between", {"min_value": value}),
        (C + "mean_to_be_between", {"max_value": value}),
        (C + "quantile_values_to_be_between", {"quantile_ranges": {"quantiles": [1.0], "value_ranges": [[0, value]]}}),
    ):
        (found,) = faults(kind, column="geo.lat", **kwargs)
        assert "is no bound: every number lies within it; leave it out" in found
    assert faults(C + "values_to_be_in_set", column="geo.lat", value_set=[value]) == []
