"""Properties of a table as Iceberg reads them: with what we call right it lands, with anything else it fails."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.iceberg import jvm, properties

CODEC, PAGES = "write.manifest.compression-codec", "write.parquet.page-version"
RIGHT = [(name, value) for name in (CODEC, PAGES) for value in properties.WORDS[name]] + [
    (CODEC, "GZIP"),
    ("write.parquet.page-row-limit", "1"),
    ("write.parquet.row-group-check-max-record-count", "100"),
]
WRONG = [
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


def test_a_name_within_another_one_or_in_a_value_is_no_property(spark: Any, namespace: str) -> None:
    within = "'our.commit.retry.num-retries'='x', 'note'='write.format.default=parkett'"
    spark.sql(f"CREATE TABLE lake.{namespace}.t (id BIGINT) USING iceberg TBLPROPERTIES ({within})")
    table = f"{namespace}.t"
    assert jvm.state_of(jvm.metadata_of(jvm.load(spark, table)), "s", table).unreadable == ""
