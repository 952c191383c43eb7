"""The name of the lake's catalog in a Spark session, and names of tables with it.

The deployment names its catalog (`catalogs: {prod: ..}` in `conf/lakeward.yaml`); `catalog.spark_conf` writes the name
into the conf of each application, so that all code with a session has the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import call_name, quote_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

KEY: Final = "spark.lakeward.catalog"
"""Spark conf with the name of the lake's catalog; not set for the default name."""


def catalog_of(session: SparkSession | ConnectSession) -> str:
    """The name of the lake's catalog in this session."""
    return session.conf.get(KEY, CATALOG) or CATALOG


def in_lake(session: SparkSession | ConnectSession, table: str) -> str:
    """A table of the lake for Spark: quoted, with its catalog.

    Raises:
        ValueError: it is not a name.
    """
    return quote_table(table, catalog_of(session))


def spoken(session: SparkSession | ConnectSession, table: str) -> str:
    """A table of the lake as people write it, with its catalog."""
    return call_name(table, catalog_of(session))


def procedure(name: str, catalog: str) -> str:
    """The start of a call of one of Iceberg's procedures, as people write it: `CALL prod.system.NAME`."""
    return f"CALL {call_name(f'system.{name}', catalog)}"
