"""What a failing row is, as a column of Spark: the condition Great Expectations has for it, without Great Expectations.

A copy of its Spark conditions, for the few that rows are counted by: importing it costs a driver 7 CPU-seconds and
300 MB. That each is the same is a test: `tests/spark/quality/test_equality.py` compares the counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from lakeward.quality.advisory.counted import Counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class NotCountable(Exception):
    """Raised where rows of these columns cannot be counted by a check; says why, as a clause."""


@dataclass(frozen=True)
class Condition:
    """A check on the columns of one table.

    Attributes:
        fails: true for a failing row.
        looked_at: true for a row that is judged at all; None: every row.
        domain: the same for checks that look at the same rows.
    """

    fails: Column
    looked_at: Column | None
    domain: str


def condition(counted: Counted, rows: DataFrame) -> Condition:
    """The condition of a check for these rows. Nothing is run.

    Raises:
        NotCountable: it does not fit the columns.
    """
    from pyspark.errors import PySparkException

    try:
        made = _condition(counted, rows)
        kept = [each.alias(f"c{at}") for at, each in enumerate((made.fails, made.looked_at)) if each is not None]
        kinds = {field.dataType.typeName() for field in rows.select(*kept).schema}
    except PySparkException as error:
        raise NotCountable(" ".join(str(error).splitlines()[:1])) from None
    except (KeyError, TypeError, ValueError) as error:
        raise NotCountable(f"its arguments do not fit: {error}") from None
    if kinds != {"boolean"}:
        raise NotCountable("its row_condition is no condition")
    return made


def _condition(counted: Counted, rows: DataFrame) -> Condition:
    from pyspark.sql import functions as F

    kwargs = counted.kwargs
    only = F.expr(kwargs["row_condition"]) if kwargs.get("row_condition") else None
    if "column_A" in kwargs:
        fails, looked_at = ~_pair(counted, rows), _both(*_of_pair(kwargs), kwargs.get("ignore_row_if"))
    else:
        column = F.col(kwargs["column"])
        expected = _EXPECTED[counted.type](column, kwargs, _family(rows, column))
        about_nulls = counted.type in _ABOUT_NULLS
        fails = ~expected if about_nulls else column.isNotNull() & ~expected
        looked_at = None if about_nulls else column.isNotNull()
    within = [each for each in (only, looked_at) if each is not None]
    domain = json.dumps({key: kwargs.get(key) for key in _DOMAIN})
    return Condition(reduce(and_, [*within, fails]), reduce(and_, within) if within else None, domain)


_DOMAIN = ("column", "column_A", "column_B", "ignore_row_if", "row_condition")


_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double", "decimal"})
_TEXTS = frozenset({"string", "char", "varchar"})


def _family(rows: DataFrame, column: Column) -> str:
    """`number`, `text`, or the name of the type: what differs in that is compared by casts, which may fail on a row."""
    kind = str(rows.select(column).schema[0].dataType.typeName())
    return "number" if kind in _NUMBERS else "text" if kind in _TEXTS else kind


def _between(value: Column, kwargs: Mapping[str, Any], least: Any, greatest: Any) -> Column:
    from pyspark.sql import functions as F

    if least is None and greatest is None:
        raise ValueError("neither min_value nor max_value")
    above = below = None
    if least is not None:
        above = value > F.lit(least) if kwargs.get("strict_min") else value >= F.lit(least)
    if greatest is not None:
        below = value < F.lit(greatest) if kwargs.get("strict_max") else value <= F.lit(greatest)
    if above is None or below is None:
        return above if below is None else below  # type: ignore[return-value]  # one of them is there
    if least > greatest:
        raise ValueError("min_value is above max_value")
    return above & below


def _bound(value: Any) -> float | date | None:
    """A limit as Great Expectations reads it: a number, a day, a moment, whichever it can be first."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        return date.fromisoformat(value) if len(value) == len("2026-01-31") else datetime.fromisoformat(value)


def _values_between(value: Column, kwargs: Mapping[str, Any], family: str) -> Column:
    least, greatest = _bound(kwargs.get("min_value")), _bound(kwargs.get("max_value"))
    numbers = {isinstance(each, float) for each in (least, greatest) if each is not None}
    if numbers != {family == "number"} or family in ("text", "boolean"):
        raise NotCountable(f"a column of {family} is not compared with such limits")
    return _between(value, kwargs, least, greatest)


def _length_between(value: Column, kwargs: Mapping[str, Any], family: str) -> Column:
    from pyspark.sql import functions as F

    least, greatest = (
        None if each is None else int(each) for each in (kwargs.get("min_value"), kwargs.get("max_value"))
    )
    return _between(F.length(value), kwargs, least, greatest)


def _length(value: Column, kwargs: Mapping[str, Any], family: str) -> Column:
    from pyspark.sql import functions as F

    return F.length(value) == int(kwargs["value"])


_IN_PYTHON: Mapping[str, tuple[type, ...]] = {
    "number": (int, float), "text": (str,), "boolean": (bool,), "date": (str,), "timestamp": (str,),
}  # fmt: skip
"""Family -> what values of a set are. Spark casts text to a day or a moment once, and not row by row."""


def _in_set(value: Column, kwargs: Mapping[str, Any], family: str) -> Column:
    values = list(kwargs["value_set"])
    kinds = _IN_PYTHON.get(family, ())
    known = [each for each in values if each is not None]
    if not all(isinstance(each, kinds) and isinstance(each, bool) == (family == "boolean") for each in known):
        raise NotCountable(f"a column of {family} is not compared with such values")
    return value.isin(values)


_EXPECTED: Mapping[str, Callable[[Column, Mapping[str, Any], str], Column]] = {
    "expect_column_values_to_not_be_null": lambda value, kwargs, family: value.isNotNull(),
    "expect_column_values_to_be_null": lambda value, kwargs, family: value.isNull(),
    "expect_column_values_to_be_between": _values_between,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": lambda value, kwargs, family: ~_in_set(value, kwargs, family),
    "expect_column_values_to_match_regex": lambda value, kwargs, family: value.rlike(kwargs["regex"]),
    "expect_column_values_to_not_match_regex": lambda value, kwargs, family: ~value.rlike(kwargs["regex"]),
    "expect_column_value_lengths_to_equal": _length,
    "expect_column_value_lengths_to_be_between": _length_between,
}
"""Expectation about one column -> what holds of a row that does not fail."""
_ABOUT_NULLS = frozenset({"expect_column_values_to_not_be_null", "expect_column_values_to_be_null"})


def _of_pair(kwargs: Mapping[str, Any]) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    return F.col(kwargs["column_A"]), F.col(kwargs["column_B"])


def _pair(counted: Counted, rows: DataFrame) -> Column:
    """What holds of a row that does not fail, of an expectation about two columns."""
    first, second = _of_pair(counted.kwargs)
    families = {_family(rows, first), _family(rows, second)}
    if len(families) > 1:
        raise NotCountable(f"columns of {' and '.join(sorted(families))} are not compared")
    if counted.type == "expect_column_pair_values_to_be_equal":
        return first.eqNullSafe(second)
    return (first >= second) | first.eqNullSafe(second) if counted.kwargs.get("or_equal") else first > second


def _both(first: Column, second: Column, ignored: str | None) -> Column | None:
    """Rows that are judged, where nulls take some out."""
    match ignored:
        case None | "both_values_are_missing":
            return ~(first.isNull() & second.isNull())
        case "either_value_is_missing":
            return ~(first.isNull() | second.isNull())
        case "neither":
            return None
    raise NotCountable(f"ignore_row_if: {ignored}")
