"""The one place where rows of a range are read.

Iceberg's Spark source ignores options it does not know: a misspelled one reads the whole table without a word. So the
names stand here once, and a test counts the rows they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.quality.range import Read
from lakeward.runtime import CATALOG
from lakeward.spec.sql import quote_table

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession


def rows(session: SparkSession, table: str, read: Read) -> DataFrame:
    """The rows of `read`: appended after its start up to its end, or the whole table at its end.

    The range must hold appends and compactions only: Iceberg leaves out what an overwrite wrote without an error.
    """
    name = quote_table(table, CATALOG)
    if read.start is None:
        return session.read.option("versionAsOf", str(read.end)).table(name)
    reader = session.read.option("start-snapshot-id", str(read.start)).option("end-snapshot-id", str(read.end))
    return reader.table(name)
