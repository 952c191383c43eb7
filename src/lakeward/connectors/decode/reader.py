"""The fast way of JSON: `io.lakeward.JsonReader` reads a record in one pass over its bytes, as an expression of Spark.

It takes the plain form of each type only. A record with anything else is in doubt, and read again by exact rules.
See docs/adr/0092.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.spec.model.formats import Formats

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_ANY_LENGTH = 2**31 - 1


def record(value: Column, schema: StructType, formats: Formats, max_bytes: int | None) -> Column:
    """A record as a struct; null if it is null, longer than `max_bytes`, or in doubt.

    Args:
        value: a binary column.
        schema: the declared columns.
        formats: how times, days and decimals are written.
        max_bytes: the longest record that is read; None: any.
    """
    context = _context()
    jvm: Any = context._jvm
    reader = jvm.io.lakeward.JsonReader(
        schema.json(),
        _ANY_LENGTH if max_bytes is None else max_bytes,
        formats.timestamps,
        formats.dates,
        formats.decimals or "any",
        formats.without_zone == "utc",
    )
    kind = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()).asNullable()
    return _call(context, reader, kind, value)


def by_pattern(text: Column, pattern: str) -> Column:
    """Microseconds since 1970 by a pattern of Spark; null if the text is none within the years 1 to 9999.

    `try_to_timestamp` ends the job at a year that is more than a TIMESTAMP holds. A pattern without a zone means UTC.
    """
    context = _context()
    jvm: Any = context._jvm
    reader = jvm.io.lakeward.PatternReader(pattern)
    return _call(context, reader, jvm.org.apache.spark.sql.types.DataType.fromJson('"long"'), text)


def _context() -> SparkContext:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # set by every classic session, and decoding needs one
    if context is None:
        raise RuntimeError("no Spark session is active")
    return context


def _call(context: SparkContext, reader: Any, kind: Any, value: Column) -> Column:
    """`read` of an object of ours as an expression of Spark."""
    from pyspark.sql.classic.column import Column, _to_seq

    jvm: Any = context._jvm
    catalyst, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types
    target = catalyst.Literal.fromObject(reader, types.ObjectType(reader.getClass()))
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    arguments = _to_seq(context, [expressions.expression(value._jc)])
    call = catalyst.objects.Invoke(target, "read", kind, arguments, _to_seq(context, []), True, True, True)
    return Column(expressions.column(call))
