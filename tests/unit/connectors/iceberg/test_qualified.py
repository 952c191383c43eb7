"""The name of the lake's catalog: where it is written, what is kept without it, and that nothing writes another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import NestedField, StringType, TimestamptzType

import lakeward
from lakeward.connectors.iceberg import missing_records_table, missing_table
from lakeward.connectors.iceberg.catalog import libraries, spark_conf
from lakeward.connectors.iceberg.qualified import KEY, procedure
from lakeward.jars import own
from lakeward.platform.runtime import CatalogLogin, Lake
from lakeward.spec.sql.names import without_catalog
from lakeward.tables.observe.predicate import in_catalog, partition_condition

REST = {"type": "rest", "uri": "https://c"}
DEFAULT_ONLY = {
    "connectors/iceberg/qualified.py",  # the name of a session without one
    "connectors/iceberg/catalog.py",  # which is not written
    "platform/runtime.py",
    "spec/model/settings.py",
    "spec/checks/catalogs.py",  # `default_catalog: lake`
    "tables/observe/predicate.py",  # conditions are recorded with it
}
"""Files that know the default name."""


def test_the_default_name_is_written_nowhere(tmp_path: Path) -> None:
    """A driver of the version before refuses a key that it does not know; the digest of a checker stays the same."""
    kept = Lake(warehouse="/w")
    assert "name" not in kept.model_dump() and "name" not in kept.model_dump_json()
    assert Lake.model_validate_json(kept.model_dump_json()) == kept
    assert KEY not in spark_conf(kept)
    named = Lake(name="prod", warehouse="/w")
    assert Lake.model_validate_json(named.model_dump_json()).name == "prod"


def test_spark_has_the_catalog_by_its_name_alone(tmp_path: Path) -> None:
    login = CatalogLogin(connection="c", connections=tmp_path)
    ours = spark_conf(Lake(name="prod", warehouse="/w", properties=REST, login=login))
    assert ours[KEY] == "prod"
    assert ours["spark.sql.catalog.prod.uri"] == "https://c"
    assert not [key for key in ours if key.startswith("spark.sql.catalog.lake")]
    default = spark_conf(Lake(warehouse="/w", properties=REST, login=login))
    renamed = {key.replace("catalog.prod", "catalog.lake"): value for key, value in ours.items() if key != KEY}
    assert renamed == default, "nothing else depends on the name"


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("prod.sales.orders", "sales.orders"),
        ("`prod`.sales.`v1.2`", "sales.`v1.2`"),
        ("prod.prod.orders", "prod.orders"),
        ("prod.orders", "prod.orders"),
        ("sales.orders", "sales.orders"),
        ("eu.sales.orders", "eu.sales.orders"),
        ("prod.sales.*", "sales.*"),
        ("prod..x", "prod..x"),
    ],
)
def test_a_name_begins_with_the_catalog_or_not(name: str, left: str) -> None:
    assert without_catalog(name, "prod") == left
    assert without_catalog(name, "") == name


def test_a_recorded_condition_is_of_the_catalog_as_it_is_called_now() -> None:
    schema = Schema(NestedField(1, "ts", TimestamptzType()), NestedField(2, "`lake`.`system`.`x`", StringType()))
    spec = PartitionSpec(
        PartitionField(1, 1000, parse_transform("month"), "m"),
        PartitionField(2, 1001, parse_transform("identity"), "i"),
    )
    text = "`lake`.`system`.`months`(it's \\\\"
    condition = partition_condition(spec, schema, [516, text])
    assert condition is not None
    moved = in_catalog(condition, "prod")
    assert moved.startswith("`prod`.`system`.`months`(`ts`) = 516 AND ")
    assert moved.removeprefix("`prod`") == condition.removeprefix("`lake`"), "columns and values stay as they are"
    assert in_catalog(condition, "lake") == condition


def test_commands_name_the_catalog(tmp_path: Path) -> None:
    assert procedure("rollback_to_snapshot", "a.q", "prod") == "CALL prod.system.rollback_to_snapshot"
    assert procedure("x", "a.q", "default").startswith("CALL `default`.system")
    back = missing_table.register("a.q", "/m.json", "s", "prod")
    assert "CALL prod.system.register_table(table => 'a.q'" in back
    ways = missing_records_table.block_reason("s", "a.q", 5, Lake(name="prod", warehouse=str(tmp_path))).next
    assert "CREATE TABLE prod.a.q" in ways


def test_nothing_else_knows_the_default_name() -> None:
    root = Path(lakeward.__file__).parent
    files = {file.relative_to(root).as_posix(): file.read_text() for file in root.rglob("*.py")}
    ours = re.compile(r"platform\.runtime import .*\bCATALOG\b|^CATALOG = \"lake\"", re.MULTILINE)
    assert {name for name, text in files.items() if ours.search(text)} == DEFAULT_ONLY
    written = re.compile(r"(CALL|TABLE|FROM|INTO|IN) `?lake`?\.|load_catalog\(\"")
    found = {name for name, text in files.items() if written.search(text)}
    assert found <= {"jars/training.py", "cli/examples.py"}, "`lakeward init` makes projects of the embedded catalog"


def test_other_catalogs_are_in_spark_by_their_names(tmp_path: Path) -> None:
    login = CatalogLogin(connection="c", connections=tmp_path)
    other = Lake(name="staging", warehouse="w", properties={"type": "rest", "uri": "https://s"}, login=login)
    lake = Lake(name="prod", warehouse="/w", properties=REST, others=(other,))
    conf = spark_conf(lake)
    assert (conf["spark.sql.catalog.prod.uri"], conf["spark.sql.catalog.staging.uri"]) == ("https://c", "https://s")
    assert conf[KEY] == "prod"
    assert own.LOGIN_JAR in libraries(lake), "the class of a login, which only the other one has"
    assert own.LOGIN_JAR not in libraries(Lake(name="prod", warehouse="/w", properties=REST))
    assert "others" not in Lake(warehouse="/w").model_dump_json(), "an earlier version does not know the key"
    assert Lake.model_validate_json(lake.model_dump_json()) == lake
