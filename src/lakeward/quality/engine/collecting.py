"""Collects rows whose times Python cannot hold: Spark's years go beyond 1 to 9999, Python's do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A day inside of Python's range, so that no zone of the client leads out of it.
_BOUNDS = {
    "date": ("DATE'0001-01-02'", "DATE'9999-12-30'"),
    "timestamp": ("TIMESTAMP_LTZ'0001-01-02 00:00:00'", "TIMESTAMP_LTZ'9999-12-30 23:59:59.999999'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ'0001-01-02 00:00:00'", "TIMESTAMP_NTZ'9999-12-30 23:59:59.999999'"),
}


def collected(frame: DataFrame, *, far_as_text: bool = False) -> list[Any]:
    """The rows of a frame. Where a time is too far for Python, all are collected again, in a form that it can hold.

    Args:
        far_as_text: then every column with times is text, at any depth; otherwise a far time of the top level is the
            nearest that Python can hold, by which it compares with any bound as the time itself does.

    Raises:
        OverflowError, ValueError: a value is too far below the top level.
        PySparkException: the query failed.
    """
    try:
        return list(frame.collect())
    except (OverflowError, ValueError) as error:
        if _is_sparks(error):
            raise
        return list(_held(frame, far_as_text=far_as_text).collect())


def _is_sparks(error: Exception) -> bool:
    """Whether Spark raised the error, whose own types are errors of Python too (`PySparkValueError`)."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException)


def _held(frame: DataFrame, *, far_as_text: bool) -> DataFrame:
    """The frame without far times. Columns are numbered in between: aggregates have names that cannot be quoted."""
    from pyspark.sql import functions as fn

    fields = frame.schema.fields
    numbered = frame.toDF(*(f"c{index}" for index in range(len(fields))))
    columns: list[Column] = []
    for index, field in enumerate(fields):
        column, kind = fn.col(f"c{index}"), field.dataType.simpleString()
        if far_as_text and any(each in kind for each in ("date", "timestamp")):
            column = column.cast("string")
        elif kind in _BOUNDS:
            low, high = (fn.expr(each) for each in _BOUNDS[kind])
            column = fn.when(column < low, low).when(column > high, high).otherwise(column)
        columns.append(column.alias(field.name))
    return numbered.select(*columns)
