"""Conditions of an erase on columns of any name, on fields of structs, and with values of every type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from seeds import seed

from lakeward.platform.errors import SpecError
from lakeward.tables.erase.fields import Fields, UnknownField, written
from lakeward.tables.erase.where import QuarantinedRows, parse

UGLY = (
    "geo.lat", "o'clock", 'said "hi"', "ta`ck", "a b", " led", "größe", "e\u0301tat", "😀", "select", "2024", "1e5",
    "a;b", "--", "/*", "100%", "{x}", "[0]", ".hidden", "a\\b", "line\nbreak", "null", "not", "true", "AND",
    "c0", "x" * 300,
)  # fmt: skip


def optional(at: int, name: str, kind: Any) -> NestedField:
    return NestedField(at, name, kind, required=False)


def nested(*names: str) -> Schema:
    """A column of these names inside each other, the innermost a number."""
    kind: Any = LongType()
    for at, name in enumerate(reversed(names)):
        kind = StructType(optional(at + 1, name, kind))
    return Schema(*kind.fields)


def rows_of(path: tuple[str, ...], values: list[Any]) -> pa.Table:
    rows = values
    for name in reversed(path[1:]):
        rows = [{name: each} for each in rows]
    return pa.table({path[0]: pa.array(rows)})


@pytest.mark.parametrize("name", UGLY)
def test_a_column_of_any_name_and_a_field_of_any_name(name: str) -> None:
    for path in ((name,), ("at", name), (name, name)):
        where = parse(f"{written(path)} = 7", nested(*path), "t")
        assert where.mask(rows_of(path, [7, None, 8])).to_pylist() == [True, False, False]
        assert (where.columns, where.names) == ((path[0],), [written(path)])


@pytest.mark.seeded
def test_drawn_names_at_any_depth() -> None:
    draw = Random(seed(51))
    for _ in range(300):
        path = tuple(
            "".join(draw.choice("ab.`'\"\\ %[]{}-;😀é\u0301\n0") for _ in range(draw.randint(1, 6)))
            for _ in range(draw.randint(1, 8))
        )
        where = parse(f"{written(path)} IN (7, 9)", nested(*path), "t")
        assert where.mask(rows_of(path, [7, 8, 9])).to_pylist() == [True, False, True], path


def test_a_column_with_dots_needs_no_quotes_and_standard_quotes_are_taken() -> None:
    names = Schema(optional(1, "geo.lat", LongType()), optional(2, "my col", LongType()))
    rows = pa.table({"geo.lat": [1, 2], "my col": [2, 1]})
    for text in ("geo.lat = 1", "`geo.lat` = 1", '"geo.lat" = 1', '"my col" = 2', "2 = `my col`"):
        assert parse(text, names, "t").mask(rows).to_pylist() == [True, False], text


def fields_of(*columns: NestedField) -> Fields:
    """Fields of columns that PyIceberg's own schema refuses, for two of them have one text."""
    schema: Any = SimpleNamespace(as_struct=lambda: StructType(*columns))
    return Fields(schema)


def test_a_column_comes_before_a_path_and_quoted_parts_are_exact() -> None:
    inner = StructType(optional(3, "b", LongType()), optional(4, "e.mail", LongType()))
    fields = fields_of(optional(1, "a.b", LongType()), optional(2, "a", inner))
    found = {
        text: fields.find(parts).field.field_id
        for text, parts in {
            "a.b": [("a", False), ("b", False)],
            "`a.b`": [("a.b", True)],
            "`a`.b": [("a", True), ("b", False)],
            "a.`e.mail`": [("a", False), ("e.mail", True)],
            "a.e.mail": [("a", False), ("e", False), ("mail", False)],
        }.items()
    }
    assert found == {"a.b": 1, "`a.b`": 1, "`a`.b": 3, "a.`e.mail`": 4, "a.e.mail": 4}


def test_a_name_that_may_be_two_fields_is_refused_with_both() -> None:
    one = StructType(optional(3, "b.c", LongType()))
    two = StructType(optional(4, "c", LongType()))
    fields = fields_of(optional(1, "a", one), optional(2, "a.b", two))
    with pytest.raises(UnknownField, match=r"a\.b\.c is any of a\.`b\.c`, `a\.b`\.c"):
        fields.find([("a", False), ("b", False), ("c", False)])
    assert fields.find([("a", False), ("b.c", True)]).field.field_id == 3


@pytest.fixture
def orders() -> Schema:
    customer = StructType(optional(3, "id", LongType()), optional(4, "e.mail", StringType()))
    items = ListType(6, StructType(optional(7, "sku", StringType())), element_required=False)
    tags = MapType(9, StringType(), 10, StringType(), value_required=False)
    return Schema(
        optional(1, "order id", LongType()), optional(2, "customer", customer), optional(5, "items", items),
        optional(8, "tags", tags),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("costumer.id = 1", r"no column costumer\.id \(there is customer\.id\)"),
        ("Customer.ID = 1", r"there is customer\.id"),
        ("customer.id.x = 1", r"customer\.id is long, no struct"),
        ("items.sku = 'x'", "items is a list or a map"),
        ("tags.a = 'x'", "tags is a list or a map"),
        ("customer = 1", "a struct is compared with nothing"),
        ("items = 1", "a list or a map is compared"),
        ("order id = 1", "no column order .there is `order id`"),
        ("`order id = 1", "from character 1 on"),
        ("customer. = 1", "from character 11 on"),
        ("`customer.id` = 1", "no column `customer.id`"),
        ("customer.id = customer.id", "from character 15 on"),
        ("customer.id NOT = 1", "cannot be parsed"),
        ("(" * 200 + "customer.id = 1" + ")" * 200, "nested more than 100"),
        ("NOT " * 500 + "customer.id = 1", "nested more than 100"),
        ("customer.id = 1; DROP TABLE t", "from character 16 on"),
        ("customer.id = 1 -- x", "from character 16 on"),
    ],
)
def test_what_is_refused_names_the_columns_there_are(orders: Schema, text: str, why: str) -> None:
    with pytest.raises(SpecError, match=why) as refused:
        parse(text, orders, "t")
    assert "its columns: `order id`, customer.id, customer.`e.mail`;" in refused.value.why


def test_a_null_struct_has_null_fields_and_may_be_asked_for(orders: Schema) -> None:
    kind = schema_to_pyarrow(orders).field("customer").type
    rows = pa.table({"customer": pa.array([{"id": 1}, None, {"id": None}], kind)})
    found = {
        text: parse(text, orders, "t").mask(rows).to_pylist()
        for text in ("customer.id = 1", "customer.id IS NULL", "customer IS NULL", "customer IS NOT NULL")
    }
    assert found == {
        "customer.id = 1": [True, False, False],
        "customer.id IS NULL": [False, True, True],
        "customer IS NULL": [False, True, False],
        "customer IS NOT NULL": [True, False, True],
    }


@pytest.mark.parametrize(
    ("record", "goes"),
    [
        ({"customer": {"id": 42}}, True),
        ({"customer": {"id": 43}}, False),
        ({"customer": {"id": None}}, False),
        ({"customer": None}, False),
        ({"customer": {}}, None),
        ({"customer": 42}, None),
        ({"customer.id": 42}, None),
        ({}, None),
    ],
)
def test_a_quarantined_record_is_judged_by_the_path(orders: Schema, record: dict[str, Any], goes: bool | None) -> None:
    assert parse("customer.id = 42", orders, "t").of_values(record) is goes


def test_a_record_without_the_field_is_searched_for_the_value(orders: Schema) -> None:
    match = QuarantinedRows(parse("customer.`e.mail` = 'ann@x.org'", orders, "t"), {"s"})
    rows = pa.table({"stream": ["s", "s"], "row": ['{"customer": {"email": "ann@x.org"}}', '{"customer": null}']})
    assert match.mask(rows).to_pylist() == [True, False]


FITTING: list[tuple[Any, str, Any, Any]] = [
    (DecimalType(10, 2), "12.5", Decimal("12.50"), Decimal("12.51")),
    (DecimalType(10, 2), "'12.500'", Decimal("12.50"), Decimal("12.51")),
    (DecimalType(10, 2), "12", Decimal("12.00"), Decimal("12.01")),
    (DecimalType(38, 0), "9" * 38, Decimal("9" * 38), Decimal("9" * 37)),
    (DecimalType(38, 10), "0.1", Decimal("0.1"), Decimal("0.1000000001")),
    (LongType(), "9007199254740993", 9007199254740993, 9007199254740992),
    (LongType(), "'9007199254740993'", 9007199254740993, 9007199254740992),
    (LongType(), "2.0", 2, 1),
    (IntegerType(), "-2147483648", -2147483648, 1),
    (DoubleType(), "1.5", 1.5, 1.0),
    (DoubleType(), "1e3", 1000.0, 1.0),
    (BooleanType(), "TRUE", True, False),
    (StringType(), "'it''s; -- \\ \"é\u0301😀'", "it's; -- \\ \"é\u0301😀", "its"),
    (DateType(), "'2026-03-01'", date(2026, 3, 1), date(2026, 3, 2)),
    (TimestampType(), "'2026-03-01T01:02:03.000004'", datetime(2026, 3, 1, 1, 2, 3, 4), datetime(2026, 3, 1)),
    (
        TimestamptzType(), "'2026-03-01T01:00:00+01:00'",
        datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 1, tzinfo=UTC),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "same", "other"), FITTING, ids=lambda each: str(each)[:20])
def test_a_value_is_compared_as_exactly_the_columns_type(kind: Any, text: str, same: Any, other: Any) -> None:
    names = Schema(optional(1, "s", StructType(optional(2, "v.x", kind))))
    rows = pa.Table.from_pylist([{"s": {"v.x": each}} for each in (same, other, None)], schema_to_pyarrow(names))
    for condition, wanted in (
        (f"s.`v.x` = {text}", [True, False, False]),
        (f"{text} = s.`v.x`", [True, False, False]),
        (f"s.v.x != {text}", [False, True, False]),
        (f"s.v.x IN ({text})", [True, False, False]),
        (f"s.v.x IN ({text}, {text})", [True, False, False]),
        (f"s.v.x NOT IN ({text})", [False, True, False]),
        (f"s.v.x BETWEEN {text} AND {text}", [True, False, False]),
        (f"s.v.x NOT BETWEEN {text} AND {text}", [False, True, False]),
    ):
        assert parse(condition, names, "t").mask(rows).to_pylist() == wanted, condition


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LongType(), "1.5"), (LongType(), "'1.5'"), (LongType(), "1e30"), (LongType(), "true"), (LongType(), "'x'"),
        (IntegerType(), "3000000000"), (DecimalType(4, 2), "1.005"), (DecimalType(4, 2), "100"),
        (DecimalType(4, 2), "'NaN'"), (StringType(), "5"), (BooleanType(), "1"), (DateType(), "'soon'"),
        (DateType(), "true"), (BinaryType(), "5"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_that_would_be_rounded_or_is_none_is_refused_and_not_quoted(kind: Any, value: str) -> None:
    names = Schema(optional(1, "v", kind))
    for condition in (f"v = {value}", f"v IN ({value})", f"v < {value}"):
        with pytest.raises(SpecError, match=r"is not exactly one of type|no values of") as refused:
            parse(condition, names, "t")
        assert value.strip("'") not in refused.value.why or len(value) < 5


def test_like_takes_a_text_that_begins_so_and_nothing_else() -> None:
    names = Schema(optional(1, "v", StringType()), optional(2, "n", LongType()))
    rows = pa.table({"v": ["a_b", "axb", "a%", None]})
    found = {text: parse(text, names, "t").mask(rows).to_pylist() for text in ("v LIKE 'a\\_%'", "v NOT LIKE 'a\\%'")}
    assert found == {"v LIKE 'a\\_%'": [True, False, False, False], "v NOT LIKE 'a\\%'": [True, True, False, False]}
    for text in ("v LIKE 'a_%'", "v LIKE '%a'", "n LIKE '1%'", "v LIKE 5"):
        with pytest.raises(SpecError, match="LIKE"):
            parse(text, names, "t")


def test_operators_bind_as_in_sql() -> None:
    names = Schema(optional(1, "a", LongType()), optional(2, "not", LongType()), optional(3, "true", BooleanType()))
    rows = pa.table({"a": [1, 2, 3], "not": [1, 1, 2], "true": [True, False, True]})
    found = {
        text: parse(text, names, "t").mask(rows).to_pylist()
        for text in ("a = 1 OR a = 2 AND `not` = 2", "NOT a = 1 AND `not` = 1", "NOT (a = 1 OR a = 2)", "`true` = true")
    }
    assert list(found.values()) == [
        [True, False, False], [False, True, False], [False, False, True], [True, False, True],
    ]  # fmt: skip


def test_the_columns_of_a_wide_table_are_named_in_part() -> None:
    names = Schema(*(optional(at + 1, f"c{at:04d}", LongType()) for at in range(1000)))
    with pytest.raises(SpecError, match=r"no column c10 .*c0039 and 960 more"):
        parse("c10 = 1", names, "t")
