"""Every expectation the bridge computes, by the bridge and by stock Great Expectations, on data made for it.

    python tests/support/gx_matrix.py < runtime.json        tells both answers to every cell, one JSON line each
    python tests/support/gx_matrix.py 7 < runtime.json      only to the cells that seed 7 draws
    python tests/support/gx_matrix.py page < these lines    writes the page of the docs and what it is made from

A process of its own, set up as the checking process is.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check
from lakeward.spec.model.suite import Expectation

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

COLUMNS = (
    "id BIGINT, n INT, m INT, x DOUBLE, price DECIMAL(10,2), code STRING, text STRING, day DATE, at TIMESTAMP, "
    "flag BOOLEAN, blank STRING, js STRING"
)
ROWS = "id, n, m, x, price, code, text, day, at, flag, blank, js"
_GOOD = (
    "SELECT id, int(id % 10) n, int(id % 10 + 1) m, id / 4D x, decimal(id) price, "
    "concat('A', id % 3) code, concat('text-', id) text, date_add(DATE'2026-01-01', int(id % 20)) day, "
    "timestamp_seconds(1767225600 + id * 60) at, true flag, string(null) blank, '{{\"a\": 1}}' js FROM range(1, 41)"
)
_BAD = (
    "SELECT if(id < 4, 4, id) id, int(if(id % 4 = 0, 99, id % 10)) n, int(if(id % 5 = 0, -5, id % 10 + 1)) m, "
    "if(id = 3, double('NaN'), id * 100D) x, decimal(id * 1000) price, "
    "if(id % 4 = 1, 'zzzz', concat('A', id % 3)) code, if(id % 3 = 0, 'long text that is much too long', 'x') text, "
    "date_add(DATE'2020-01-01', int(id * 30)) day, timestamp_seconds(id * 86400 * 300) at, id % 2 = 0 flag, "
    "if(id % 3 = 0, 'not blank', null) blank, if(id % 4 = 0, 'no json', '1') js FROM range(1, 41)"
)
_HOLES = (
    "SELECT if(id % 7 = 0, null, id) id, if(id % 3 = 0, null, n) n, if(id % 4 = 0, null, m) m, "
    "if(id % 5 = 0, null, x) x, if(id % 5 = 0, null, price) price, if(id % 2 = 0, null, code) code, "
    "if(id % 3 = 0, null, text) text, if(id % 6 = 0, null, day) day, if(id % 6 = 1, null, at) at, "
    "if(id % 3 = 1, null, flag) flag, blank, if(id % 4 = 0, null, js) js FROM ({good})"
)
DATA = {
    "pass": _GOOD,
    "fail": _BAD,
    "nulls": _HOLES,
    "empty": "SELECT * FROM ({good}) WHERE id < 0",
}

# Forty rows a query, over a thousand queries: planning and compiling them costs more than running them.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}

Kwargs = dict[str, Any]
CASES: tuple[tuple[str, Kwargs], ...] = (
    ("expect_table_row_count_to_be_between", {"min_value": 10, "max_value": 40}),
    ("expect_table_row_count_to_equal", {"value": 40}),
    ("expect_table_column_count_to_be_between", {"min_value": 3, "max_value": 12}),
    ("expect_table_column_count_to_be_between", {"min_value": 13}),
    ("expect_table_column_count_to_equal", {"value": 12}),
    ("expect_table_column_count_to_equal", {"value": 5}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": ROWS.split(", ")}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": ["n", "id"]}),
    ("expect_table_columns_to_match_set", {"column_set": ["id", "n"], "exact_match": False}),
    ("expect_table_columns_to_match_set", {"column_set": ["id", "n"]}),
    ("expect_column_to_exist", {"column": "day"}),
    ("expect_column_to_exist", {"column": "night"}),
    ("expect_column_type_to_be", {"column": "n", "type_": "IntegerType"}),
    ("expect_column_type_to_be", {"column": "n", "type_": "StringType"}),
    ("expect_column_values_to_be_of_type", {"column": "n", "type_": "IntegerType"}),
    ("expect_column_values_to_be_of_type", {"column": "n", "type_": "StringType"}),
    ("expect_column_values_to_be_in_type_list", {"column": "x", "type_list": ["DoubleType", "FloatType"]}),
    ("expect_column_values_to_be_in_type_list", {"column": "x", "type_list": ["StringType", "DateType"]}),
    ("expect_column_values_to_not_be_null", {"column": "code"}),
    ("expect_column_values_to_be_null", {"column": "blank"}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "n", "min_value": 0.9}),
    ("expect_column_values_to_be_between", {"column": "n", "min_value": 0, "max_value": 20}),
    ("expect_column_values_to_be_between", {"column": "x", "min_value": 0, "max_value": 20, "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "price", "min_value": 0, "max_value": 100}),
    ("expect_column_values_to_be_between", {"column": "day", "min_value": "2026-01-01", "max_value": "2026-12-31"}),
    ("expect_column_values_to_be_between", {"column": "at", "min_value": "2026-01-01T00:00:00"}),
    ("expect_column_values_to_be_in_set", {"column": "code", "value_set": ["A0", "A1", "A2"]}),
    ("expect_column_values_to_be_in_set", {"column": "flag", "value_set": [True]}),
    ("expect_column_values_to_not_be_in_set", {"column": "n", "value_set": [99, 100]}),
    ("expect_column_values_to_match_regex", {"column": "code", "regex": "^A[0-9]$"}),
    ("expect_column_values_to_not_match_regex", {"column": "code", "regex": "z+"}),
    ("expect_column_values_to_match_regex_list", {"column": "text", "regex_list": ["^text", "^neverhere"]}),
    ("expect_column_values_to_match_regex_list", {"column": "text", "regex_list": ["^t", "-"], "match_on": "all"}),
    ("expect_column_values_to_not_match_regex_list", {"column": "text", "regex_list": ["much", "too"]}),
    ("expect_column_value_lengths_to_equal", {"column": "code", "value": 2}),
    ("expect_column_value_lengths_to_be_between", {"column": "text", "min_value": 4, "max_value": 9}),
    ("expect_column_values_to_be_json_parseable", {"column": "js"}),
    ("expect_column_values_to_match_json_schema", {"column": "js", "json_schema": {"type": "object"}}),
    ("expect_column_values_to_match_json_schema", {"column": "js", "json_schema": {"type": "array"}}),
    ("expect_column_values_to_match_strftime_format", {"column": "code", "strftime_format": "A%w"}),
    ("expect_column_value_z_scores_to_be_less_than", {"column": "n", "threshold": 2, "double_sided": True}),
    ("expect_column_value_z_scores_to_be_less_than", {"column": "n", "threshold": 0.5, "double_sided": False}),
    ("expect_column_values_to_be_unique", {"column": "id"}),
    ("expect_column_values_to_be_unique", {"column": "x"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["id", "code"]}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["id", "n"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["id", "flag"]}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["n", "m"]}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["m", "id"]}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["n", "m"], "sum_total": 9}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["n", "n"]}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["n", "m"]}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "m", "column_B": "n"}),
    ("expect_column_pair_values_a_to_be_greater_than_b",
     {"column_A": "m", "column_B": "n", "or_equal": True, "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "n", "ignore_row_if": "neither"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}),
    ("expect_column_pair_values_to_be_in_set",
     {"column_A": "code", "column_B": "flag", "value_pairs_set": [["A0", True], ["A1", True], ["A2", True]]}),
    ("expect_column_max_to_be_between", {"column": "x", "min_value": 5, "max_value": 10}),
    ("expect_column_min_to_be_between", {"column": "day", "min_value": "2026-01-01"}),
    ("expect_column_mean_to_be_between", {"column": "x", "min_value": 1, "max_value": 10}),
    ("expect_column_sum_to_be_between", {"column": "n", "min_value": 20, "max_value": 200}),
    ("expect_column_stdev_to_be_between", {"column": "x", "min_value": 0.1, "max_value": 10}),
    ("expect_column_unique_value_count_to_be_between", {"column": "code", "min_value": 1, "max_value": 3}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "code", "value_set": ["A0", "A1", "A2", "A3"]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "n", "value_set": [1, 2, 4]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "flag", "value_set": []}),
    ("expect_column_distinct_values_to_equal_set", {"column": "flag", "value_set": [True]}),
    ("expect_column_distinct_values_to_equal_set", {"column": "code", "value_set": ["A0", "A1", "A2"]}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "id", "min_value": 0.9}),
)  # fmt: skip
_SORTS = "exact in Great Expectations by a sort of the rows, which one pass has not"
_SHUFFLES = "brings every value of the column and its count to the checker"
_ORDER = "about the order of the rows, and rows of a table have none"
_NOT_SPARK = "Great Expectations computes it in pandas or SQL databases only: `quality lint` refuses it"
LEFT: tuple[tuple[str, Kwargs, str], ...] = (
    ("expect_column_median_to_be_between", {"column": "n", "min_value": 3, "max_value": 5}, _SORTS),
    ("expect_column_quantile_values_to_be_between",
     {"column": "x", "quantile_ranges": {"quantiles": [0.1, 0.9], "value_ranges": [[0, 2], [8, 10]]}}, _SORTS),
    ("expect_column_values_to_not_be_outliers", {"column": "x", "multiplier": 1.5}, _SORTS),
    ("expect_column_most_common_value_to_be_in_set", {"column": "code", "value_set": ["A1"]}, _SHUFFLES),
    ("expect_column_kl_divergence_to_be_less_than",
     {"column": "code", "threshold": 0.1,
      "partition_object": {"values": ["A0", "A1", "A2"], "weights": [0.3, 0.4, 0.3]}}, _SHUFFLES),
    ("expect_column_values_to_be_increasing", {"column": "n"}, _ORDER),
    ("expect_column_values_to_be_decreasing", {"column": "id"}, _ORDER),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n > 50"}, "SQL of your own"),
    ("expect_column_values_to_be_dateutil_parseable", {"column": "text"}, _NOT_SPARK),
    ("expect_column_values_to_match_like_pattern", {"column": "code", "like_pattern": "A%"}, _NOT_SPARK),
    ("expect_column_values_to_not_match_like_pattern", {"column": "code", "like_pattern": "z%"}, _NOT_SPARK),
    ("expect_column_values_to_match_like_pattern_list",
     {"column": "code", "like_pattern_list": ["A%"]}, _NOT_SPARK),
    ("expect_column_values_to_not_match_like_pattern_list",
     {"column": "code", "like_pattern_list": ["z%"]}, _NOT_SPARK),
)  # fmt: skip
"""Expectations that stay with stock Great Expectations, and why. It is asked in two phases, and tells what it tells in
one."""
ALL = (*CASES, *((kind, kwargs) for kind, kwargs, _ in LEFT))
MOSTLY = 0.7
CONDITION = {"row_condition": "id > 12", "condition_parser": "spark"}


def variants(kind: str, kwargs: Kwargs) -> Iterator[tuple[str, str, Kwargs]]:
    """Data set, column of the matrix and arguments: the check as it is on every data set, with `mostly` and about some
    rows only on the one that fails, as far as Great Expectations has them for it."""
    from great_expectations.expectations.registry import get_expectation_impl

    fields = get_expectation_impl(kind).__fields__
    for data in DATA:
        yield data, data, kwargs
    if "mostly" in fields:
        yield "fail", "mostly", {**kwargs, "mostly": MOSTLY}
    if "row_condition" in fields:
        yield "fail", "row_condition", {**kwargs, **CONDITION}


def configured_checks(data: str) -> dict[tuple[int, str], ConfiguredCheck]:
    """Every check on a data set, by the case's number and the matrix's column."""
    return {
        (number, column): ConfiguredCheck(f"{number}-{column}", Expectation(type=kind, kwargs=each), "increment", False)
        for number, (kind, kwargs) in enumerate(ALL)
        for on, column, each in variants(kind, kwargs)
        if on == data
    }


DRAWN = 1
"""Cells of each case in a draw."""


def draw(seed: int | None) -> set[tuple[int, str]]:
    """Cells by the case's number and the matrix's column: some of every case, chosen by the seed; all without one."""
    chance = random.Random(seed)
    found: set[tuple[int, str]] = set()
    for number, (kind, kwargs) in enumerate(ALL):
        columns = [column for _, column, _ in variants(kind, kwargs)]
        found |= {(number, column) for column in (columns if seed is None else chance.sample(columns, DRAWN))}
    return found


def frame(spark: SparkSession, name: str) -> DataFrame:
    """The rows of one data set, in one partition; made once, so that no query pays for how they are made."""
    made = spark.sql(DATA[name].format(good=_GOOD)).coalesce(1)
    return spark.createDataFrame(made.toArrow(), made.schema).coalesce(1)


def answer(check: Check) -> dict[str, Any]:
    """What has to be equal; an error's text is GX's own in one place and Spark's in the other."""
    return {
        "state": check.state.value,
        "observed": check.observed,
        "rows": check.rows,
        "unexpected_count": check.unexpected_count,
    }


def cells(spark: SparkSession, seed: int | None = None) -> Iterator[dict[str, Any]]:
    """Both answers to every check on every data set; of those only that the seed draws, if there is one."""
    from lakeward.quality.engine.bridge import checks as bridge
    from lakeward.quality.engine.gx import Checker

    for setting, value in QUICK.items():
        spark.conf.set(setting, value)
    checker, drawn = Checker(), draw(seed)
    for name in DATA:
        drawn_checks = {cell: each for cell, each in configured_checks(name).items() if cell in drawn}
        rows = frame(spark, name)
        ours = bridge.check(rows, [each for (number, _), each in drawn_checks.items() if number < len(CASES)])
        left = [each for (number, _), each in drawn_checks.items() if number >= len(CASES)]
        ours |= {each.id: each for each in checker.check(rows, left)}
        theirs = checker.stock(rows, list(drawn_checks.values()))
        for (number, column), each in drawn_checks.items():
            mine = ours.get(each.id)
            yield {
                "case": number,
                "expectation": each.expectation.type,
                "column": column,
                "bridge": answer(mine) if mine else None,
                "stock": answer(theirs[each.id]),
                "error": mine.error if mine else None,
                "stock_error": theirs[each.id].error,
                "sample": len(mine.sample) if mine else 0,
            }


HELD = Path(__file__).parents[2] / "docs" / "reference" / "expectations.json"
PAGE = HELD.with_suffix(".md")
_COLUMNS = (*DATA, "mostly", "row_condition")
_HEAD = """# Expectations that are computed in one pass

Made from [expectations.json](expectations.json) by `tests/support/gx_matrix.py`; a test computes cells again, `make
faults` all of them and CI {drawn} of a line, drawn by a seed that it prints, by the bridge and by stock Great
Expectations {version}, and compares state, observed value, rows and failing rows
([ADR 40](../adr/0040-great-expectations-in-one-aggregate.md)).

Each word is what both of them say: about data that pass, that fail, with nulls, without a row; with `mostly: {mostly}`
and with `row_condition: {condition}` on the data that fail. Empty: Great Expectations takes no such argument there.

`error` in a cell is the error of both.

{table}

Arguments are settled before either sees them: see [arguments of checks](check-arguments.md) for the differences.
"""
_LEFT = """
## Left to Great Expectations itself

These it computes alone, un-persisted, with a read of the rows each: first whether they pass, then more about those that
fail. The states are those of a single usual run.

{table}

Not for Spark either, and not drawn: `expect_query_results_to_match_comparison` and
`expect_table_row_count_to_equal_other_table`, which compare with another database or table. Across tables of the lake
[our own checks](../how-to/follow-quality.md#checks-that-know-the-history-and-other-tables) do.
"""


def same(cell: Mapping[str, Any]) -> bool:
    """Whether both answered the same; sums of floats may differ in their last digits, by the order of the rows. What is
    left to stock is told less of where it passes: the least that GX has."""
    ours, stock = cell["bridge"], cell["stock"]
    if cell["case"] >= len(CASES) and ours["state"] == "pass":
        stock = {key: ours[key] and value for key, value in stock.items()}
    if ours and isinstance(ours["observed"], float) and isinstance(stock["observed"], float):
        near = math.isclose(ours["observed"], stock["observed"], rel_tol=1e-12)
        return near and {**ours, "observed": None} == {**stock, "observed": None}
    return bool(ours == stock)


def held(cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is kept of the cells: the state both tell, or both states where they differ."""
    rows: dict[int, dict[str, Any]] = {}
    for cell in cells:
        kind, kwargs = ALL[cell["case"]]
        row = rows.setdefault(cell["case"], {"expectation": kind, "kwargs": kwargs, "states": {}})
        if cell["case"] >= len(CASES):
            row["left"] = LEFT[cell["case"] - len(CASES)][2]
        ours = cell["bridge"]["state"] if cell["bridge"] else "left to stock"
        row["states"][cell["column"]] = ours if same(cell) else f"{ours} but stock {cell['stock']['state']}"
    return [rows[number] for number in sorted(rows)]


def page(rows: Sequence[Mapping[str, Any]], version: str) -> str:
    """The page of the docs."""
    head = _HEAD.format(
        version=version, mostly=MOSTLY, condition=CONDITION["row_condition"], drawn=DRAWN,
        table=_table([row for row in rows if "left" not in row]),
    )  # fmt: skip
    return head + _LEFT.format(table=_table([row for row in rows if "left" in row], "why"))


def _table(rows: Sequence[Mapping[str, Any]], *more: str) -> str:
    columns = ("expectation", "arguments", *_COLUMNS, *more)
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        arguments = ", ".join(f"`{key}: {json.dumps(value)}`" for key, value in row["kwargs"].items())
        states = [row["states"].get(column, "") for column in _COLUMNS] + ([row["left"]] if more else [])
        lines.append(f"| `{row['expectation']}` | {arguments.replace('|', '&#124;')} | {' | '.join(states)} |")
    return "\n".join(lines)


def main() -> None:
    """Entry point."""
    from lakeward.quality.engine.gx import WRITTEN_FOR

    if sys.argv[1:] == ["page"]:
        rows = held(json.loads(line) for line in sys.stdin)
        HELD.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
        PAGE.write_text(page(rows, WRITTEN_FOR))
        return
    from lakeward.connectors.spark.connect import session
    from lakeward.platform.runtime import Runtime

    with session(Runtime.model_validate_json(sys.stdin.read())) as spark:
        seed = int(sys.argv[1]) if sys.argv[1:] else None
        for cell in cells(spark, seed):
            print(json.dumps(cell), flush=True)


if __name__ == "__main__":
    main()
