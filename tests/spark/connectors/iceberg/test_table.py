"""Tables as streams need them."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.iceberg import table
from lakeward.platform.errors import Refused


def test_a_table_is_created_with_what_the_protocol_stands_on(spark: Any, namespace: str, catalog: Any) -> None:
    schema = spark.sql("SELECT 1 `odd ``name`, named_struct('a b', 1) nested, current_timestamp() at").schema

    assert table.create(spark, f"{namespace}.t", schema, ["days(at)"], {"note": "o'brien"})

    made = catalog.load_table(f"{namespace}.t")
    assert {name: made.properties.get(name) for name in table.PROPERTIES if name != "format-version"} == {
        name: value for name, value in table.PROPERTIES.items() if name != "format-version"
    }
    assert made.properties["write.distribution-mode"] == "hash"
    assert made.properties["note"] == "o'brien"
    assert made.metadata.format_version == 2
    assert [field.name for field in made.schema().fields] == ["odd `name", "nested", "at"]
    assert not any(field.required for field in made.schema().fields)
    assert [str(field.transform) for field in made.spec().fields] == ["day"]


def test_a_table_that_exists_is_left_alone(spark: Any, namespace: str, catalog: Any) -> None:
    schema = spark.sql("SELECT 1 a").schema
    assert table.create(spark, f"{namespace}.t", schema)

    assert not table.create(spark, f"{namespace}.t", spark.sql("SELECT 1 b").schema, properties={"x": "y"})

    assert "x" not in catalog.load_table(f"{namespace}.t").properties


def test_the_namespace_is_made_too(spark: Any, namespace: str) -> None:
    name = f"{namespace}_more"

    table.create(spark, f"{name}.t", spark.sql("SELECT 1 a").schema)

    assert spark.catalog.tableExists(f"lake.{name}.t")
    spark.sql(f"DROP TABLE lake.{name}.t PURGE")
    spark.sql(f"DROP NAMESPACE lake.{name}")


@pytest.mark.parametrize("properties", [{"write.wap.enabled": "false"}, {"format-version": "1"}])
def test_what_exactly_once_cannot_stand_on_is_refused(spark: Any, namespace: str, properties: dict[str, str]) -> None:
    with pytest.raises(Refused):
        table.create(spark, f"{namespace}.t", spark.sql("SELECT 1 a").schema, properties=properties)
