"""Columns of a table that is made for a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def ddl(session: SparkSession, schema: StructType) -> str:
    """The columns as DDL, names quoted by Spark itself, everything optional: a stream promises no more than its
    source does."""
    from pyspark.sql.types import StructType

    relaxed = schema.json().replace('"nullable":false', '"nullable":true')
    relaxed = relaxed.replace('"containsNull":false', '"containsNull":true')
    relaxed = relaxed.replace('"valueContainsNull":false', '"valueContainsNull":true')
    empty = session.createDataFrame([], StructType.fromJson(json.loads(relaxed)))
    return str(empty._jdf.schema().toDDL())
