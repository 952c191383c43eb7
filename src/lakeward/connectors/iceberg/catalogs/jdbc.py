"""The embedded catalog: Iceberg's JdbcCatalog on PostgreSQL.

No password appears here: the JDBC driver and libpq both read the file that `PGPASSFILE` names.
"""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake
from lakeward.registry import client

_CLIENT = "lakeward.connectors.iceberg.catalogs.jdbc_client.JdbcClient"
# PostgreSQL ended the connection (shutdown, crash, still starting). Without these codes, a pooled connection that died
# in a restart fails its next user instead of being opened again.
_RECONNECT = "57P01,57P02,57P03"
# Seconds. Without them a server that says nothing hangs a commit for ever. A commit whose answer does not come in time
# may still be done later: it is a lost answer, after which the table is read again.
_SILENCE = {"jdbc.connectTimeout": "10", "jdbc.socketTimeout": "60", "jdbc.tcpKeepAlive": "true"}

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

# One value for all tables: the database reads its rows, and sends 32 characters.
_STATE = """SELECT md5(coalesce(string_agg(
              concat_ws(chr(1), catalog_name, table_namespace, table_name, metadata_location), chr(2)
              ORDER BY catalog_name, table_namespace, table_name), '')) FROM iceberg_tables"""


class Jdbc:
    """The JdbcCatalog of the stack's PostgreSQL."""

    def spark(self, lake: Lake) -> dict[str, str]:
        return {
            "warehouse": lake.warehouse,
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:postgresql://{lake.host}:{lake.port}/{lake.database}",
            "jdbc.user": lake.user,
            "jdbc.schema-version": "V1",
            "retryable_status_codes": _RECONNECT,
            **_SILENCE,
        }

    def pyiceberg(self, lake: Lake, pgpass: Path | None) -> dict[str, Any]:
        return {"warehouse": lake.warehouse, "py-catalog-impl": _CLIENT, "uri": _url(lake, pgpass)}

    def libraries(self, lake: Lake) -> list[Path]:
        return []

    def reads_s3(self, lake: Lake) -> bool:
        return False

    def state(self, lake: Lake, pgpass: Path | None) -> str | None:
        if "uri" in lake.properties:
            return None  # a database that Lakeward knows only by PyIceberg's properties
        try:
            with _pool(_url(lake, pgpass)).connect() as connection:
                return str(connection.execute(text(_STATE)).scalar_one())
        except OperationalError as error:
            raise catalog_down(lake, error) from error
        except ProgrammingError:
            return None  # no client has created the tables of the catalog yet, or the login may not read them

    def create_schema(self, lake: Lake, pgpass: Path | None) -> None:
        import psycopg2

        how = {"passfile": str(pgpass)} if pgpass else {}
        with (
            closing(
                psycopg2.connect(host=lake.host, port=lake.port, dbname=lake.database, user=lake.user, **how)
            ) as link,
            link.cursor() as cursor,
        ):
            for statement in _SCHEMA:
                cursor.execute(statement)
            link.commit()


def catalog_down(lake: Lake, error: OperationalError) -> DependencyDown:
    """The error for a catalog's database that does not answer."""
    reason = str(error.orig).strip().splitlines()[0] if error.orig else "no answer"
    return DependencyDown(
        "The catalog does not answer",
        why=f"PostgreSQL at {lake.host}:{lake.port}/{lake.database}: {reason}",
        next="lakeward stack status",
        code="LW-4003",
    )


@lru_cache(maxsize=4)
def _pool(url: str) -> Engine:
    return client.pool(url, "lakeward-catalog", 1, 1)


def _url(lake: Lake, pgpass: Path | None) -> str:
    query = f"?passfile={quote(str(pgpass), safe='')}" if pgpass else ""
    return f"postgresql+psycopg2://{lake.user}@{lake.host}:{lake.port}/{lake.database}{query}"
