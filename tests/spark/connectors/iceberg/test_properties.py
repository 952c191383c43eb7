"""Properties of a table as Iceberg reads them: with what we call right it lands, with anything else it fails."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.platform.errors import Blocked
from lakeward.spec.model import iceberg_properties as properties

CODEC, PAGES = "write.manifest.compression-codec", "write.parquet.page-version"
RIGHT = [(name, value) for name in (CODEC, PAGES) for value in properties.WORDS[name]] + [
    (CODEC, "GZIP"),
    ("write.parquet.page-row-limit", "1"),
    ("write.parquet.row-group-check-max-record-count", "100"),
]
RIGHT += [
    ("write.parquet.compression-level", "-5"),
    ("write.parquet.compression-level", " 3"),
    ("write.avro.compression-level", "x"),  # of another format
]
WRONG = [
    ("write.parquet.compression-level", "x"),
    ("write.parquet.compression-level", ""),
    ("write.data.path", ""),
    ("write.data.path", "file:rel"),
    (PAGES, "v9"),
    (PAGES, "V1"),
    (CODEC, "foo"),
    ("write.parquet.page-row-limit", "0"),
    ("write.parquet.row-group-check-min-record-count", "-1"),
    ("write.parquet.row-group-size-bytes", "0"),
]


@pytest.mark.parametrize(("name", "value"), RIGHT + WRONG)
def test_a_value_is_right_if_iceberg_writes_with_it(spark: Any, namespace: str, name: str, value: str) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    spark.sql(f"CREATE TABLE lake.{namespace}.t (id BIGINT) USING iceberg TBLPROPERTIES ('{name}'='{value}')")
    rows = spark.range(2).writeTo(f"lake.{namespace}.t")
    if properties.stop_commits({name: value}):
        with pytest.raises((Py4JJavaError, PySparkException)):
            rows.append()
        assert (name, value) in WRONG
    else:
        rows.append()
        assert (name, value) in RIGHT


@pytest.mark.parametrize(
    ("name", "value"), [("write.location-provider.impl", "no.such.Provider"), ("write.folder-storage.path", "/lake/x")]
)
def test_a_table_without_a_place_for_its_files_is_named_with_the_way_out(
    spark: Any, namespace: str, name: str, value: str
) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE lake.{table} (id BIGINT) USING iceberg")
    writer = IcebergWriter(spark, "s", table, "s")
    writer.load(spark)
    spark.sql(f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('{name}'='{value}')")
    with pytest.raises(Blocked, match=f"by {name}: ") as blocked:
        writer.load(spark)
    assert blocked.value.reason == "property-unreadable"
    spark.sql(blocked.value.next.split("--write ")[1].split("   ")[0].strip("'\"").replace("'\"'\"'", "'"))
    writer.load(spark)
    spark.range(2).writeTo(f"lake.{table}").append()


def test_a_name_within_another_one_or_in_a_value_is_no_property(spark: Any, namespace: str) -> None:
    within = "'our.commit.retry.num-retries'='x', 'note'='write.format.default=parkett'"
    spark.sql(f"CREATE TABLE lake.{namespace}.t (id BIGINT) USING iceberg TBLPROPERTIES ({within})")
    table = f"{namespace}.t"
    assert jvm.state_of(jvm.metadata_of(jvm.load(spark, table)), "s", table).unreadable == ""
