"""One address of the lake in three dialects, none with a password."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow
from pyiceberg.catalog import load_catalog

from lakeward.connectors.iceberg import catalog
from lakeward.platform.runtime import CATALOG, Lake


def test_spark_gets_the_jdbc_catalog_without_a_password() -> None:
    conf = catalog.spark_conf(Lake(host="db", port=5433, database="c", user="u", warehouse="/w"))
    assert conf["spark.sql.catalog.lake.uri"] == "jdbc:postgresql://db:5433/c"
    assert conf["spark.sql.catalog.lake.jdbc.user"] == "u"
    assert conf["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"
    assert conf["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert conf["spark.sql.catalog.lake.jdbc.socketTimeout"] == "60", "a silent database hangs no commit"
    assert not [key for key in conf if "password" in key]


def test_a_catalog_of_another_kind_takes_nothing_from_postgresql() -> None:
    lake = Lake(warehouse="/w", properties={"type": "rest", "uri": "https://catalog", "warehouse": "theirs"})
    conf = catalog.spark_conf(lake)
    assert conf["spark.sql.catalog.lake.type"] == "rest"
    assert conf["spark.sql.catalog.lake.uri"] == "https://catalog"
    assert conf["spark.sql.catalog.lake.warehouse"] == "theirs"
    assert "spark.sql.catalog.lake.catalog-impl" not in conf
    client = "lakeward.connectors.iceberg.catalogs.rest_client.RestClient"
    properties = catalog.pyiceberg_properties(lake)
    assert properties.pop("py-io-impl").endswith(".CheckedFileIO")
    assert properties == {"warehouse": "theirs", "py-catalog-impl": client, "uri": "https://catalog"}
    catalog.create_schema(lake)  # nothing to create, nothing asked


def test_the_schema_is_the_form_with_iceberg_type_and_pyiceberg_lives_on_it(
    postgres: Any, database: str, tmp_path: Path
) -> None:
    lake = Lake(
        host=postgres.host, port=postgres.port, database=database, user=postgres.user, warehouse=str(tmp_path / "w h")
    )
    for _ in range(2):
        catalog.create_schema(lake, postgres.pgpass)
    with (
        closing(
            psycopg2.connect(
                host=lake.host, port=lake.port, dbname=database, user=lake.user, passfile=str(postgres.pgpass)
            )
        ) as link,
        link.cursor() as cursor,
    ):
        cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_name = 'iceberg_tables'")
        assert "iceberg_type" in {name for (name,) in cursor.fetchall()}
    found = load_catalog(CATALOG, **catalog.pyiceberg_properties(lake, postgres.pgpass))
    found.create_namespace("ns")
    rows = pyarrow.table({"x": [1, 2]})
    found.create_table("ns.t", schema=rows.schema).append(rows)
    assert found.load_table("ns.t").scan().to_arrow().num_rows == 2
    found.close()
