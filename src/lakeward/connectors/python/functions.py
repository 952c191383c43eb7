"""UDF registration: functions of user Python as SQL functions of a Spark session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeward.connectors.python import code
from lakeward.spec.model.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: SparkSession, transform: Transform) -> None:
    """Register the `udfs:` of a transform in this session.

    Raises:
        UserCodeFailed: an import fails, the name is not a function, or it is not of the declared kind.
    """
    from pyspark.sql.functions import udf as by_value
    from pyspark.sql.pandas.functions import pandas_udf

    for name, udf in (transform.udfs or {}).items():
        function = code.load(str(udf.python), transform.code)
        with code.failing(str(udf.python)):
            make: Callable[..., Any] = pandas_udf if udf.pandas else by_value
            made = make(function, udf.returns)
            session.udf.register(str(name), made if udf.deterministic else made.asNondeterministic())
