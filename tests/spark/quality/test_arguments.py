"""Arguments of checks on a real engine: what cannot be a value is told at once and alone, the rest compared exactly."""

from __future__ import annotations

from typing import Any

import pytest

_ODD = (
    "n INT, `geo.lat` DOUBLE, orderId BIGINT, big DECIMAL(38,0), day DATE, at TIMESTAMP, code STRING, f FLOAT, "
    "flag BOOLEAN, st STRUCT<`x.y`: INT, low: STRUCT<`p.q`: INT>>, `s.t` STRUCT<a: INT>, arr ARRAY<INT>, `*` INT"
)
_GX = "condition_parser: great_expectations"
_QUERY = "SELECT * FROM {batch} WHERE n = 'abc'"
_BIG = "12345678901234567890123456789012345678"
_ROWS = 10


@pytest.fixture
def odd(table: Any) -> Any:
    """Ten rows with columns of many types and odd names; of `carrier` two are no `paid`, one is null."""
    table.sql(f"ALTER TABLE {{t}} ADD COLUMNS ({_ODD})")
    table.sql(
        "INSERT INTO {t} SELECT id, if(id = 0, null, if(id < 3, 'lost', 'paid')), 1D, 0, id, int(id), "
        f"double(id), id, CAST('{_BIG}' AS DECIMAL(38,0)), DATE'2026-01-01', TIMESTAMP'2026-01-01 12:00:00Z', "
        f"concat('0', id), float(0.1), true, "
        "named_struct('x.y', int(id), 'low', named_struct('p.q', int(id))), named_struct('a', 1), array(1), int(id) "
        f"FROM range({_ROWS})"
    )
    return table


def told(table: Any, *expectations: str) -> list[tuple[str, str]]:
    """State and error of each expectation, in order."""
    table.suite(*expectations)
    result = table.check()
    states = {(each["expectation"], str(each["kwargs"])): each for each in result["checks"]}
    assert len(states) == len(expectations), "each expectation of a test differs from the others"
    return [(each["state"], each.get("error") or str(each.get("observed") or "")) for each in result["checks"]]


def on(kind: str, column: str, more: str = "") -> str:
    return f"{{type: expect_column_{kind}, kwargs: {{column: {column}{', ' if more else ''}{more}}}}}"


def test_literals_that_are_no_values_are_errors_and_all_others_are_decided(odd: Any) -> None:
    found = told(
        odd,
        on("values_to_be_in_set", "n", "value_set: [1, 2, n/a]"),
        on("values_to_be_between", "day", "min_value: 20260101"),
        on("values_to_be_in_set", "code", "value_set: [01234]"),
        on("values_to_match_regex", "code", r"regex: '^(?P<five>\d{5})$'"),
        on("values_to_not_match_regex", "code", r"regex: '^{[a-z]+}$'"),
        on("values_to_not_be_null", "n", f"row_condition: 'col(\"n\") == \"abc\"', {_GX}"),
        on("values_to_not_be_null", "id", f"row_condition: 'col(\"id\") > 1 and col(\"n\") > 2', {_GX}"),
        f'{{type: unexpected_rows_expectation, kwargs: {{unexpected_rows_query: "{_QUERY}"}}}}',
        on("values_to_not_be_null", "orderid"),
    )  # fmt: skip
    assert [state for state, _ in found] == [*["error"] * 8, "pass"], found
    places = [error.rpartition("(expectations/")[2] for _, error in found[:8]]
    assert places == [f"{odd.name}.yaml:{line})" for line in range(5, 13)], found
    for (_, error), words in zip(
        found,
        ("n is INT: 'n/a'", "20260101 is not a day", "quotes", "(?<name>", r"\{", "'abc'", "would ignore", "n is INT"),
        strict=False,
    ):
        assert words in error


def test_sets_with_null_judge_as_pandas_does(odd: Any) -> None:
    found = told(
        odd,
        on("values_to_be_in_set", "carrier", "value_set: [paid, open, null]"),
        on("values_to_be_in_set", "carrier", "value_set: [paid, lost, null]"),
        on("values_to_not_be_in_set", "carrier", "value_set: [lost, null]"),
        on("distinct_values_to_be_in_set", "carrier", "value_set: [paid, null]"),
        on("distinct_values_to_contain_set", "carrier", "value_set: [paid, null]"),
    )
    assert [state for state, _ in found] == ["fail", "pass", "fail", "fail", "error"], found


def test_names_are_resolved_alike_for_every_expectation(odd: Any) -> None:
    found = told(
        odd,
        on("to_exist", "orderid"),
        on("values_to_not_be_null", "ORDERID"),
        on("values_to_be_unique", "orderID"),
        on("to_exist", "geo.lat"),
        on("values_to_be_between", "geo.lat", "min_value: 0, max_value: 9"),
        on("distinct_values_to_be_in_set", "GEO.LAT", "value_set: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"),
        on("max_to_be_between", "geo.lat", "max_value: 9"),
        on("values_to_be_unique", "geo.lat"),
        on("mean_to_be_between", "geo.lat", "min_value: 4, max_value: 5"),
        on("to_exist", "geolat"),
        "{type: expect_table_columns_to_match_set, kwargs: {column_set: [ORDERID, geo.lat], exact_match: false}}",
        "{type: expect_compound_columns_to_be_unique, kwargs: {column_list: [geo.lat, ORDERID]}}",
        "{type: expect_column_pair_values_to_be_equal, kwargs: {column_A: geo.lat, column_B: ID}}",
        on("values_to_be_between", "st.x.y", "min_value: 0, max_value: 9"),
        on("values_to_not_be_null", "'`st`.`x.y`'"),
        on("mean_to_be_between", "ST.low.p.q", "min_value: 4, max_value: 5"),
        on("to_exist", "st.x.y"),
        on("values_to_be_between", "'*'", "min_value: 0, max_value: 9"),
        "{type: expect_table_columns_to_match_set, kwargs: {column_set: ['*'], exact_match: false}}",
        on("values_to_not_be_null", "s.t.a"),
        on("values_to_match_regex", "arr", "regex: x"),
        on("sum_to_be_between", "day", "min_value: 0"),
    )
    states = [*["pass"] * 9, "fail", *["pass"] * 9, *["error"] * 3]
    assert [state for state, _ in found] == states, found
    for (_, error), words in zip(
        found[-3:], ("cannot read the field `s.t`.a", "about text", "about numbers"), strict=True
    ):
        assert words in error


def test_values_are_compared_exactly(odd: Any) -> None:
    below = str(int(_BIG) - 1)
    found = told(
        odd,
        on("values_to_be_between", "big", f'min_value: "{_BIG}", max_value: "{_BIG}"'),
        on("values_to_be_between", "big", f'max_value: "{below}"'),
        on("values_to_be_in_set", "big", f'value_set: ["{_BIG}"]'),
        on("values_to_be_in_set", "f", "value_set: [0.1]"),
        on("values_to_be_between", "f", "min_value: 0.1, max_value: 0.1"),
        on("values_to_be_in_set", "day", "value_set: [2026-01-01]"),
        on("values_to_be_between", "at", "min_value: 2026-01-01T12:00:00Z, max_value: 2026-01-01T12:00:00Z"),
        on("values_to_be_in_set", "at", "value_set: [2026-01-01T13:00:00+01:00]"),
        on("max_to_be_between", "at", "max_value: 2026-01-01T13:00:00+01:00"),
        on("min_to_be_between", "at", "min_value: 2026-01-01T12:00:01Z"),
        on("values_to_be_between", "code", "min_value: '00', max_value: '09'"),
        on("values_to_be_in_set", "n", "value_set: ['0', 1, 2.0, 3, 4, 5, 6, 7, 8, 9]"),
        on("min_to_be_between", "day", "min_value: 2026-01-01"),
        on("values_to_be_in_set", "flag", "value_set: ['true']"),
    )
    expected = ["pass", "fail", *["pass"] * 7, "fail", *["pass"] * 4]
    assert [state for state, _ in found] == expected, found


def test_quantiles_of_one_column_are_not_shared(odd: Any) -> None:
    def quantiles(*wanted: float) -> str:
        ranges = ", ".join("[4, 5]" if each == 0.5 else "[9, 9]" for each in wanted)
        return on(
            "quantile_values_to_be_between",
            "id",
            f"quantile_ranges: {{quantiles: {list(wanted)}, value_ranges: [{ranges}]}}",
        )

    found = told(odd, quantiles(0.5), quantiles(1.0), quantiles(1.0, 0.5), on("values_to_not_be_null", "id"))
    assert [state for state, _ in found] == ["pass"] * 4, found
