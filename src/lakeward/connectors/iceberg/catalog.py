"""The settings of the catalog `lake` for Spark, PyIceberg and the stack: one JdbcCatalog, three forms of its address.

No password appears here: the JDBC driver and libpq both read the file that `PGPASSFILE` names.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from lakeward.connectors.aws import store
from lakeward.jars import own
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import CATALOG, Lake
from lakeward.spec.checks import sqlite

SPARK_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
)
# PostgreSQL ended the connection (shutdown, crash, still starting). Without these codes, a pooled connection that died
# in a restart fails its next user instead of being opened again.
_RECONNECT = "57P01,57P02,57P03"
# Seconds. Without them a server that says nothing hangs a commit for ever. A commit whose answer does not come in time
# may still be done later: it is a lost answer, after which the table is read again.
_SILENCE = {"jdbc.connectTimeout": "10", "jdbc.socketTimeout": "60", "jdbc.tcpKeepAlive": "true"}
_KINDS = ("type", "catalog-impl")  # a deployment that sets one of these uses another kind of catalog

_IMPL, _HERE = "py-catalog-impl", "lakeward.connectors.iceberg"

# JdbcCatalog's tables in their V1 form (with `iceberg_type`, which views need). PyIceberg would create the V0 form.
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS iceberg_tables (
         catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
         metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
         PRIMARY KEY (catalog_name, table_namespace, table_name))""",
    """CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
         catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
         property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))""",
)


def spark_conf(lake: Lake) -> dict[str, str]:
    """The Spark conf of every Lakeward application: extensions and the catalogs `lake` and `spark_catalog`.

    The process needs `PGPASSFILE` in its environment, and the variables of `store.environment`.

    Raises:
        SpecError: the catalog would be an SQLite file.
    """
    _check(lake)
    prefix = f"spark.sql.catalog.{CATALOG}"
    catalog = {"cache-enabled": "false", "warehouse": lake.warehouse}
    if not _other_kind(lake):
        catalog |= {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:postgresql://{lake.host}:{lake.port}/{lake.database}",
            "jdbc.user": lake.user,
            "jdbc.schema-version": "V1",
            "retryable_status_codes": _RECONNECT,
            **_SILENCE,
        }
    catalog |= lake.properties
    return {
        "spark.sql.extensions": ",".join(SPARK_EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # The number of tasks that compute a table's state. Delta's default of 50 costs a second where the log is small.
        "spark.databricks.delta.snapshotPartitions": "2",
        **own.spark_conf(),
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **store.spark_conf(lake, prefix),
        **{f"{prefix}.{key}": value for key, value in catalog.items()},
    }


def pyiceberg_properties(lake: Lake, pgpass: Path | None = None) -> dict[str, str]:
    """The properties for `pyiceberg.catalog.load_catalog(CATALOG, **properties)`.

    Args:
        lake: the catalog.
        pgpass: `Runtime.pgpass`; needed where `PGPASSFILE` is not in the environment.

    Raises:
        SpecError: the catalog would be an SQLite file.
    """
    _check(lake)
    properties = {"warehouse": lake.warehouse, **store.pyiceberg_properties(lake)}
    if not _other_kind(lake):
        return properties | {_IMPL: f"{_HERE}.jdbc_client.JdbcClient", "uri": _url(lake, pgpass)} | lake.properties
    properties |= lake.properties
    if properties.get("type") == "rest":  # PyIceberg takes either a type or a class
        del properties["type"]
        properties[_IMPL] = f"{_HERE}.rest_client.RestClient"
    return properties


def create_schema(lake: Lake, pgpass: Path | None = None) -> None:
    """Create the catalog's two tables in the database; safe to repeat. Does nothing for a catalog of another kind."""
    if _other_kind(lake):
        return
    import psycopg2

    how = {"passfile": str(pgpass)} if pgpass else {}
    with (
        closing(psycopg2.connect(host=lake.host, port=lake.port, dbname=lake.database, user=lake.user, **how)) as link,
        link.cursor() as cursor,
    ):
        for statement in _SCHEMA:
            cursor.execute(statement)
        link.commit()


def _check(lake: Lake) -> None:
    why = sqlite.refusal(lake.properties)
    if why:
        raise SpecError(
            "The catalog of the lake cannot be an SQLite file",
            why=why,
            next="lakeward stack up   configures PostgreSQL as the catalog",
            code="LW-3065",
        )


def _other_kind(lake: Lake) -> bool:
    return any(key in lake.properties for key in _KINDS)


def _url(lake: Lake, pgpass: Path | None) -> str:
    query = f"?passfile={quote(str(pgpass), safe='')}" if pgpass else ""
    return f"postgresql+psycopg2://{lake.user}@{lake.host}:{lake.port}/{lake.database}{query}"
