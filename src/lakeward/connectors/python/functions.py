"""Functions of the project's own Python, as SQL functions of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeward.connectors.python import code
from lakeward.spec.model.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: SparkSession, transform: Transform) -> None:
    """Let the transform's SQL call its `udfs:` in this session.

    Raises:
        UserCodeFailed: one cannot be imported, is no function, or not of the kind it is said to be.
    """
    from pyspark.sql.functions import udf as by_value
    from pyspark.sql.pandas.functions import pandas_udf

    for name, udf in (transform.udfs or {}).items():
        function = code.load(str(udf.python), transform.code)
        with code.failing(str(udf.python)):
            make: Callable[..., Any] = pandas_udf if udf.pandas else by_value
            made = make(function, udf.returns)
            session.udf.register(str(name), made if udf.deterministic else made.asNondeterministic())
