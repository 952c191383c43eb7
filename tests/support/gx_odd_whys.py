"""Why Lakeward and stock Great Expectations, or stock on Spark and on pandas, differ on a cell of `gx_odd.py`.

Where Lakeward says `error` or `refused`, its own words are the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]

PANDAS = {
    "null in a set": "a comparison with null is neither true nor false in SQL; in pandas null equals null",
    "NaN and infinite": "NaN is a value for Spark, and a missing one for pandas, where a text equals no number either",
    "borders of mostly": "the number of rows that are judged differs: pandas counts other rows as missing",
    "a table without rows": "an aggregate of no row is null for Spark, and a number (0 for a sum) or NaN for pandas",
    "a column without a value": "an aggregate of no value is null for Spark; 0 for a sum, or NaN, in pandas",
    "days, times and texts": "pandas compares Python's objects: a day or a time and a text, or one with a zone and one "
    "without, are an error or never equal",
    "bounds": "pandas compares Python's objects and does not order texts and numbers, nor count the length of a number",
    "decimals and floats": "pandas compares Decimal, float and text as they are: 1.1 is not Decimal('1.10')",
    "values of a set": "pandas converts nothing: a text equals no number, and a number no text",
    "names": "Spark finds a name in another case; pandas does not, and needs no quotes",
    "conditions": "pandas reads a condition by `DataFrame.query`, which is no SQL",
    "patterns": "Spark has Java's patterns, pandas has Python's; they differ in classes, flags and anchors",
    "types": "the names of types are those of the engine: Spark's here, those of NumPy and Python there",
    "several columns": "a missing value equals another one in pandas, and nothing in SQL",
    "quantiles": "Spark takes a value that is there; pandas may take one between two values, and takes no `true`",
    "arguments of older versions": "Great Expectations has it for one engine only, or counts other rows as missing",
}
"""Why pandas differs from Spark, by what is odd: Lakeward says what Spark says there."""

_NAMED = ("expect_column_to_exist", "expect_table_columns_to_match_set", "expect_column_distinct_values_to_be_in_set")
OURS: tuple[tuple[Callable[[Row], bool], str], ...] = (
    (
        lambda row: row["kind"] == "null in a set",
        "in SQL a comparison with null is neither true nor false, and stock lets every other value pass; here "
        "null has no effect, as in pandas",
    ),
    (
        lambda row: row["kwargs"].get("column") in ("day_text", "code"),
        "bounds in quotes on a STRING are texts here; stock takes them for numbers or times",
    ),
    (lambda row: row["kwargs"].get("column") == "big", "stock rounds the bound to a double"),
    (lambda row: row["kwargs"].get("column") == "f", "0.1 is the nearest FLOAT here, and a double there"),
    (
        lambda row: row["kind"] == "names" and row["expectation"] in _NAMED,
        "every expectation finds a column as Spark does: case does not matter, and a dot needs no quotes",
    ),
)
"""Why Lakeward differs from stock on Spark."""


def why_of(row: Row) -> str:
    """The reason, as a clause; empty if there is none."""
    if row["ours"] == "refused" or (row["ours"] == "error" and row["spark"] != "error"):
        return _words(row)
    if row["ours"] != row["spark"]:
        return next((why for applies, why in OURS if applies(row)), "")
    if row["ours"] == "error":
        return _words(row)
    return PANDAS[row["kind"]]


def _words(row: Row) -> str:
    return str(row.get("words") or "")
