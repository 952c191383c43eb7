"""Spark data sources by name: check that the class path has one of this name, and append to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BUNDLES = {
    "hudi": "Hudi's bundle for Spark 4.1 is org.apache.hudi:hudi-spark4.1-bundle_2.13",
}
"""Data source name -> Maven coordinates of its jar, for names whose jar is known."""


def check(session: SparkSession, name: str, where: str) -> None:
    """Check that Spark has a data source of this name.

    Raises:
        SpecError: there is none, or it does not fit this version of Spark.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    lookup: Any = session._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]  # classic sessions have a JVM
    try:
        lookup.lookupDataSource(name, session._jsparkSession.sessionState().conf())
    except (PySparkException, Py4JError):
        known = _BUNDLES.get(name.lower().rpartition(".")[2])
        raise SpecError(
            f"There is no data source {name} on the class path",
            why=f"{where} names it; {known or 'its jar is not in the list of jars that Lakeward runs with'}",
            next="correct name:, or add the jar to ivy.xml and run: python -m lakeward.jars pin",
            code="LW-3128",
        ) from None


def write(rows: DataFrame, name: str, options: dict[str, str]) -> None:
    """Append the rows of a batch."""
    rows.write.format(name).options(**options).mode("append").save()
