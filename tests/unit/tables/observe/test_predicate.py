"""A partition as a condition and as a name."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from lakeward.tables.observe.predicate import day_text, partition_condition, partition_name, voided

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "origin", StringType()),
    NestedField(3, "ts", TimestamptzType()),
    NestedField(4, "day", DateType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "weight", DoubleType()),
    NestedField(7, "code", BinaryType()),
    NestedField(8, "late", BooleanType()),
    NestedField(9, "we`ird", StringType()),
)
IDS = {"id": 1, "origin": 2, "ts": 3, "day": 4, "price": 5, "weight": 6, "code": 7, "late": 8, "we`ird": 9}


def spec(*fields: tuple[str, str]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(IDS[column], 1000 + n, parse_transform(transform), f"{column}_{transform.split('[')[0]}")
            for n, (column, transform) in enumerate(fields)
        )
    )


@pytest.mark.parametrize(
    ("column", "transform", "value", "condition"),
    [
        ("origin", "identity", "O'Hare\\", "`origin` = 'O\\'Hare\\\\'"),
        ("origin", "identity", None, "`origin` IS NULL"),
        ("id", "identity", 7, "`id` = 7"),
        ("late", "identity", True, "`late` = TRUE"),
        ("day", "identity", 15000, "`day` = DATE '2011-01-26'"),
        ("price", "identity", Decimal("1.50"), "`price` = CAST('1.50' AS DECIMAL(9, 2))"),
        ("we`ird", "identity", "x", "`we``ird` = 'x'"),
        ("ts", "year", 43, "`lake`.`system`.`years`(`ts`) = 43"),
        ("ts", "month", 516, "`lake`.`system`.`months`(`ts`) = 516"),
        ("ts", "day", 15000, "`lake`.`system`.`days`(`ts`) = DATE '2011-01-26'"),
        ("ts", "day", date(2011, 1, 26), "`lake`.`system`.`days`(`ts`) = DATE '2011-01-26'"),
        ("ts", "day", 20_416_604, "`lake`.`system`.`days`(`ts`) = DATE '+57868-10-06'"),
        ("ts", "day", -800_000, "`lake`.`system`.`days`(`ts`) = DATE '-0221-09-04'"),
        ("day", "identity", 20_416_604, "`day` = DATE '+57868-10-06'"),
        ("ts", "hour", 360000, "`lake`.`system`.`hours`(`ts`) = 360000"),
        ("ts", "month", None, "`ts` IS NULL"),
        ("id", "bucket[16]", 3, "`lake`.`system`.`bucket`(16, `id`) = 3"),
        ("origin", "truncate[2]", "EW", "`lake`.`system`.`truncate`(2, `origin`) = 'EW'"),
        ("id", "truncate[10]", 20, "`lake`.`system`.`truncate`(10, `id`) = 20"),
    ],
)
def test_each_transform_has_its_condition(column, transform, value, condition):
    assert partition_condition(spec((column, transform)), SCHEMA, [value]) == condition


@pytest.mark.parametrize(("column", "value"), [("weight", 1.5), ("code", b"x")])
def test_what_sql_cannot_compare_exactly_has_none(column, value):
    assert partition_condition(spec((column, "identity")), SCHEMA, [value]) is None


def test_fields_are_joined_and_void_ones_left_out():
    fields = spec(("ts", "month"), ("origin", "identity"), ("id", "void"))
    assert partition_condition(fields, SCHEMA, [516, "EWR", None]) == (
        "`lake`.`system`.`months`(`ts`) = 516 AND `origin` = 'EWR'"
    )
    assert partition_name(fields, [516, "EWR", None]) == "ts_month=2013-01/origin_identity=EWR"


@pytest.mark.parametrize("transform", ["bucket[4]", "truncate[2]"])
def test_a_transform_of_a_column_with_a_void_field_has_no_condition(transform):
    """Iceberg fails on it: "Invalid value for conversion to type string"."""
    fields = spec(("origin", "void"), ("origin", transform), ("id", "identity"))
    voids = voided([fields])
    assert voids == {IDS["origin"]}
    assert partition_condition(fields, SCHEMA, [None, "E" if "trunc" in transform else 0, 7], voids) is None
    assert partition_condition(fields, SCHEMA, [None, None, 7], voids) == "`origin` IS NULL AND `id` = 7"
    assert partition_condition(spec(("origin", "identity")), SCHEMA, ["E"], voids) == "`origin` = 'E'"


def test_an_unpartitioned_table_needs_no_condition():
    assert partition_condition(PartitionSpec(), SCHEMA, []) == ""
    assert partition_name(PartitionSpec(), []) == ""


def test_a_dropped_source_column_has_none():
    assert partition_condition(spec(("origin", "identity")), Schema(NestedField(1, "id", LongType())), ["x"]) is None


@pytest.mark.parametrize(
    ("transform", "value", "name"),
    [("year", 43, "2013"), ("month", 516, "2013-01"), ("day", 15000, "2011-01-26"), ("hour", 360000, "2011-01-26-00")],
)
def test_times_are_named_as_people_write_them(transform, value, name):
    assert partition_name(spec(("ts", transform)), [value]) == f"ts_{transform}={name}"


def test_nothing_is_named_null():
    assert partition_name(spec(("origin", "identity")), [None]) == "origin_identity=null"


def test_days_are_named_as_dates_within_and_beyond_the_years_that_python_knows():
    epoch = date(1970, 1, 1)
    for days in (*range(-719_162, 2_932_896, 1_009), -719_162, -1, 0, 59, 2_932_896):
        assert day_text(days) == (epoch + timedelta(days=days)).isoformat()
    assert [day_text(days) for days in (2_932_897, 2**31 - 1)] == ["+10000-01-01", "+5881580-07-11"]
    assert day_text(-719_163) == "0000-12-31"
