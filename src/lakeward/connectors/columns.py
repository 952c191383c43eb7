"""Columns of a table that is created for a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def ddl(session: SparkSession, schema: StructType) -> str:
    """The columns as DDL, with names quoted by Spark. Every column is nullable, because the source may send nulls."""
    empty = session.createDataFrame([], relaxed(schema.jsonValue()))
    return str(empty._jdf.schema().toDDL())


def relaxed(schema: dict[str, Any]) -> StructType:
    """A schema, given as Spark's JSON, with every column and field nullable."""
    from pyspark.sql.types import StructType

    text = json.dumps(schema, separators=(",", ":"))
    for word in ("nullable", "containsNull", "valueContainsNull"):
        text = text.replace(f'"{word}":false', f'"{word}":true')
    return StructType.fromJson(json.loads(text))


def up_casts(session: SparkSession, given: Any, has: Any) -> bool:
    """Whether Spark can store one type, given as its JSON, in another without loss (`Cast.canUpCast`)."""
    jvm: Any = session._jvm
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    up = jvm.org.apache.spark.sql.catalyst.expressions.Cast.canUpCast
    return bool(up(parse(json.dumps(given)), parse(json.dumps(has))))
