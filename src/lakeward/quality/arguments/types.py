"""Types of columns that an expectation cannot be computed for: every run would be an error in Spark's words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakeward.quality.arguments.columns import Resolved
from lakeward.quality.arguments.faults import Fault
from lakeward.spec.read.document import Path_

_NESTED = ("ARRAY", "MAP", "STRUCT", "VARIANT")
_NO_NUMBERS = (*_NESTED, "BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_C = "expect_column_"
_OF_TEXT = frozenset(
    f"{_C}{each}"
    for each in (
        "values_to_match_regex", "values_to_not_match_regex", "values_to_match_regex_list",
        "values_to_not_match_regex_list", "value_lengths_to_equal", "value_lengths_to_be_between",
        "values_to_be_json_parseable", "values_to_match_json_schema", "values_to_match_strftime_format",
    )
)  # fmt: skip
_OF_NUMBERS = frozenset(
    f"{_C}{each}"
    for each in (
        "mean_to_be_between", "median_to_be_between", "quantile_values_to_be_between",
        "value_z_scores_to_be_less_than",
    )
)  # fmt: skip
"""Of these, Great Expectations or Spark refuses text too."""
_OF_SUMS = frozenset((f"{_C}sum_to_be_between", f"{_C}stdev_to_be_between", "expect_multicolumn_sum_to_equal"))
"""Spark casts text to a number for them."""
_BETWEEN = f"{_C}values_to_be_between"


_COMPARED = frozenset((f"{_C}pair_values_a_to_be_greater_than_b", f"{_C}pair_values_to_be_equal"))
_FAMILIES = (
    ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE"),
    ("STRING", "VARCHAR", "CHAR"),
    ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
)
"""Types that Spark compares with each other without an error. Two types of different lines are cast, and the first text
that is no number ends the query."""


def faults(kind: str, columns: Mapping[str, Resolved]) -> Iterator[Fault]:
    """The columns, by the argument that names them, whose type an expectation cannot be computed for."""
    for key, column in columns.items():
        base = column.kind.partition("(")[0]
        if kind in _OF_TEXT and base in _NESTED:
            yield _fault(key, column, "text")
        elif (kind in _OF_NUMBERS and base in (*_NO_NUMBERS, "STRING")) or (kind in _OF_SUMS and base in _NO_NUMBERS):
            yield _fault(key, column, "numbers")
        elif kind == _BETWEEN and base == "BOOLEAN":
            words = f"column {column.plain} is BOOLEAN, which has no order: use expect_column_values_to_be_in_set"
            yield Fault((key,), words, column.plain)
    if kind in _COMPARED and "column_A" in columns and "column_B" in columns:
        yield from _unlike(columns["column_A"], columns["column_B"])


def _unlike(first: Resolved, second: Resolved) -> Iterator[Fault]:
    """Two columns that are compared, and that Spark would have to cast for it."""
    families = [_family(each.kind) for each in (first, second)]
    if "" not in families and "VOID" not in families and families[0] != families[1]:
        words = (
            f"column {first.plain} is {first.kind} and column {second.plain} is {second.kind}, which are not compared: "
            "cast one in the query of unexpected_rows_expectation"
        )
        yield Fault(("column_B",), words, second.plain)


def _family(kind: str) -> str:
    base = kind.partition("(")[0]
    return next((each[0] for each in _FAMILIES if base in each), base)


_NAMES = ("StringType", "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType",
          "DecimalType", "DateType", "TimestampType", "TimestampNTZType", "BinaryType", "ArrayType", "MapType",
          "StructType", "VariantType", "NullType", "CharType", "VarcharType", "DayTimeIntervalType",
          "YearMonthIntervalType")  # fmt: skip
_SQL_NAMES = {
    "int": "IntegerType", "integer": "IntegerType", "bigint": "LongType", "long": "LongType", "smallint": "ShortType",
    "short": "ShortType", "tinyint": "ByteType", "byte": "ByteType", "string": "StringType", "str": "StringType",
    "text": "StringType", "varchar": "StringType", "object": "StringType", "float": "FloatType", "double": "DoubleType",
    "float64": "DoubleType", "int64": "LongType", "int32": "IntegerType", "bool": "BooleanType",
    "boolean": "BooleanType", "date": "DateType", "timestamp": "TimestampType", "datetime": "TimestampType",
    "timestamp_ntz": "TimestampNTZType", "binary": "BinaryType", "bytes": "BinaryType", "decimal": "DecimalType",
    "array": "ArrayType", "map": "MapType", "struct": "StructType", "variant": "VariantType",
}  # fmt: skip


def unknown(kind: str, kwargs: Mapping[str, Any]) -> Iterator[Fault]:
    """Names of types that Spark does not have: the check is an error unless a list has another one that Spark has."""
    if kind == f"{_C}values_to_be_of_type":
        named: dict[Path_, Any] = {("type_",): kwargs.get("type_")}
    elif kind == f"{_C}values_to_be_in_type_list":
        listed = kwargs.get("type_list")
        named = {("type_list", index): each for index, each in enumerate(listed if isinstance(listed, list) else ())}
    else:
        return
    if any(not isinstance(each, str) or each in _NAMES for each in named.values()):
        return
    for path, each in named.items():
        near = _SQL_NAMES.get(each.partition("(")[0].strip().lower())
        yield Fault(path, "Spark has no type of this name", each, (near,) if near else _NAMES[:12], near)


def _fault(key: str, column: Resolved, needs: str) -> Fault:
    kind = column.kind
    other = "name a field of it, or " if kind == "STRUCT" else ""
    words = f"column {column.plain} is {kind}, and this check is about {needs}: {other}use unexpected_rows_expectation"
    return Fault((key,), words, column.plain)
