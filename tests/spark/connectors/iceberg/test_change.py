"""How a batch is written: what it reads, it reads once."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.iceberg import table
from lakeward.connectors.iceberg.change import Append, Upsert
from lakeward.platform.errors import Blocked


@pytest.mark.parametrize("order_by", [None, "at"])
def test_an_upsert_computes_its_rows_once(spark: Any, namespace: str, order_by: str | None) -> None:
    from pyspark.sql import functions as F

    computed = spark.sparkContext.accumulator(0)

    def count(value: int) -> int:
        computed.add(1)
        return value

    rows = spark.range(5).select(F.udf(count, "bigint", useArrow=False)("id").alias("id"), F.col("id").alias("at"))
    table.create(spark, f"{namespace}.t", rows.schema, (), {})
    spark.sql(f"ALTER TABLE lake.{namespace}.t UNSET TBLPROPERTIES ('write.wap.enabled')")
    assert Upsert(["id"], order_by).write(rows, f"{namespace}.t") == 5
    assert computed.value == 5
    assert spark.table(f"lake.{namespace}.t").count() == 5


@pytest.mark.parametrize("name", ["write.merge.mode", "write.merge.isolation-level", "write.merge.distribution-mode"])
def test_a_property_that_a_merge_cannot_read_is_named(spark: Any, namespace: str, name: str) -> None:
    rows = spark.range(3)
    table.create(spark, f"{namespace}.t", rows.schema, (), {})
    spark.sql(f"ALTER TABLE lake.{namespace}.t UNSET TBLPROPERTIES ('write.wap.enabled')")
    spark.sql(f"ALTER TABLE lake.{namespace}.t SET TBLPROPERTIES ('{name}'='no such word')")
    with pytest.raises(Blocked) as raised:
        Upsert(["id"], None).write(rows, f"{namespace}.t")
    assert (raised.value.reason, raised.value.code) == ("property-unreadable", "LW-3496")
    assert f"{name} is 'no such word', which is " in raised.value.why
    assert raised.value.next.startswith(f"lakeward tables maintain {namespace}.t --actions metadata")
    assert Append().write(rows, f"{namespace}.t") is None  # it reads none of these
    assert spark.table(f"lake.{namespace}.t").count() == 3
