"""Data sources that are passed on to Spark by their name: whether it has one of that name, and writing to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BUNDLES = {
    "hudi": "Hudi's bundle for Spark 4.1 is org.apache.hudi:hudi-spark4.1-bundle_2.13",
}
"""Names whose jar is known -> where it is."""


def check(session: SparkSession, name: str, where: str) -> None:
    """Whether Spark has a data source of this name.

    Raises:
        SpecError: it has none, or one that does not fit this Spark.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    lookup: Any = session._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]  # classic sessions have a JVM
    try:
        lookup.lookupDataSource(name, session._jsparkSession.sessionState().conf())
    except (PySparkException, Py4JError):
        known = _BUNDLES.get(name.lower().rpartition(".")[2])
        raise SpecError(
            f"There is no data source of the name {name} on the class path",
            why=f"{where} names it; {known or 'its jar is not among those Lakeward runs with'}",
            next="jars come from one reviewed list: add it to ivy.xml, python -m lakeward.jars pin; or correct name:",
            code="LW-3128",
        ) from None


def write(rows: DataFrame, name: str, options: dict[str, str]) -> None:
    """Append a batch's rows."""
    rows.write.format(name).options(**options).mode("append").save()
