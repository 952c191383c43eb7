"""Which rows an erase means: by columns, in quarantine by JSON or by text, and what nobody can tell."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pyarrow as pa
import pytest
from typed import commands

from lakeward.platform.errors import SpecError
from lakeward.tables.erase.where import QuarantinedRows, parse


@pytest.fixture
def schema() -> Any:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DateType, LongType, NestedField, StringType

    fields = (("id", LongType()), ("name", StringType()), ("day", DateType()))
    return Schema(*(NestedField(at, name, kind, required=False) for at, (name, kind) in enumerate(fields, 1)))


def put_aside(*rows: dict[str, Any]) -> pa.Table:
    kinds = {"stream": pa.string(), "raw": pa.binary(), "row": pa.string(), "error": pa.string()}
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()})


def goes(match: QuarantinedRows, *rows: dict[str, Any]) -> list[bool]:
    found: list[bool] = match.mask(put_aside(*({"stream": "s", **row} for row in rows))).to_pylist()
    return found


def test_a_null_condition_leaves_the_row(schema: Any) -> None:
    rows = pa.table({"id": pa.array([1, None, 2], pa.int64())})
    assert parse("NOT id = 1", schema, "t").mask(rows).to_pylist() == [False, False, True]


def test_a_date_is_compared_as_a_date(schema: Any) -> None:
    match = QuarantinedRows(parse("day < '2026-02-01'", schema, "t"), {"s"})
    rows = [{"row": json.dumps({"day": day})} for day in ("2026-01-31", "2026-02-01", None)]
    assert goes(match, *rows) == [True, False, False]


def test_rows_of_other_streams_stay_and_those_of_its_backfills_go(schema: Any) -> None:
    match = QuarantinedRows(parse("id = 7", schema, "t"), {"s"})
    row = json.dumps({"id": 7})
    assert goes(match, {"row": row, "stream": "other"}, {"row": row, "stream": "s@backfill-2"}) == [False, True]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [(b'{"id": 42, "x"', True), (b'{"id": 421, "x"', False), (b'{"id": 1.42', False), (b'{"id": 43}', False)],
)
def test_a_broken_record_is_judged_by_its_text(schema: Any, raw: bytes, wanted: bool) -> None:
    assert goes(QuarantinedRows(parse("id = 42", schema, "t"), {"s"}), {"raw": raw}) == [wanted]


def test_a_row_that_has_the_columns_is_judged_by_them_alone(schema: Any) -> None:
    match = QuarantinedRows(parse("id = 42 AND day < '2026-02-01'", schema, "t"), {"s"})
    later = json.dumps({"id": 42, "day": "2026-03-01"})
    assert goes(match, {"row": later}, {"raw": b'{"id": 42, "da'}) == [False, True]


def test_a_condition_without_values_cannot_be_searched_for(schema: Any) -> None:
    match = QuarantinedRows(parse("id > 42", schema, "t"), {"s"})
    assert goes(match, {"raw": b"broken 43"}) == [False] and match.unreadable == 1


def test_a_value_in_the_words_of_an_error_counts(schema: Any) -> None:
    match = QuarantinedRows(parse("name = 'Ann Lee'", schema, "t"), {"s"})
    assert goes(match, {"raw": b"", "error": "cannot read 'Ann Lee'"}, {"raw": b"", "error": "short"}) == [True, False]


@pytest.mark.parametrize("erase", [False, True])
def test_bytes_that_are_no_text_are_counted(schema: Any, erase: bool) -> None:
    match = QuarantinedRows(parse("id = 42", schema, "t"), {"s"}, erase_unreadable=erase)
    assert goes(match, {"raw": b"\xff\xfe"}, {"raw": b"{}"}) == [erase, False]
    assert match.unreadable == 1


@pytest.mark.parametrize("text", ["id = 'x'", "no = 1", "id", "true", "id = 1; DROP TABLE t", "id IN ()"])
def test_what_is_no_condition(schema: Any, text: str) -> None:
    with pytest.raises(SpecError, match="--where") as refused:
        parse(text, schema, "t")
    [command] = commands(refused.value.next or "")
    parse(shlex.split(command)[-2], schema, "t")  # the example is about the table's own columns


def test_a_condition_prints_no_value(schema: Any) -> None:
    assert "Ann" not in repr(QuarantinedRows(parse("name = 'Ann'", schema, "t"), {"s"}))


@pytest.mark.parametrize(
    ("condition", "row", "wanted"),
    [
        ("name = 'Jörg \"J\" Ö'", {"raw": json.dumps({"after": {"name": 'Jörg "J" Ö'}}).encode()}, True),
        ("name = 'a/b'", {"raw": rb'{"after": {"name": "a\/b"}, "cut'}, True),
        ("name = '😀'", {"raw": rb'{"after": {"name": "\ud83d\ude00"}}'}, True),
        ("name = 'the \"x\"'", {"raw": b'1,"the ""x""",2'}, True),
        ("id = 42", {"raw": b'{"after": {"id": 4.2e1}}'}, True),
        ("id = 42", {"raw": b'{"after": {"id": 42.0}}'}, True),
        ("id = 42", {"raw": b'{"after": {"id": 142, "at": "1.42"}}'}, False),
    ],
)
def test_a_value_is_found_as_json_and_csv_write_it(
    schema: Any, condition: str, row: dict[str, Any], wanted: bool
) -> None:
    match = QuarantinedRows(parse(condition, schema, "t"), {"s"})
    assert (goes(match, row), match.unreadable) == ([wanted], 0)


@pytest.mark.parametrize(
    ("condition", "raw"),
    [
        ("name = 'Ann' OR id > 60", b'{"after": {"id": 61}}'),
        ("day = '2026-02-01'", b'{"after": {"day": 20485}}'),
        ("name = 'Ann' OR day = '2026-02-01'", b'{"after": {"day": 20485}}'),
        ("id = 42", b"\x00\x00\x00\x00\x01T\x06Ann"),  # Avro of a schema registry: 42 is T
        ("name = ''", b'{"after": {"name": ""}}'),
    ],
)
def test_a_text_without_the_values_does_not_clear_a_row_that_may_match(schema: Any, condition: str, raw: bytes) -> None:
    match = QuarantinedRows(parse(condition, schema, "t"), {"s"})
    assert (goes(match, {"raw": raw}), match.unreadable) == ([False], 1)


def test_a_text_without_the_values_clears_a_row_that_needs_one(schema: Any) -> None:
    match = QuarantinedRows(parse("(name = 'Ann' OR id IN (1, 2)) AND day = '2026-02-01'", schema, "t"), {"s"})
    assert (goes(match, {"raw": b'{"after": {"id": 3}}'}), match.unreadable) == ([False], 0)


def test_a_value_in_a_header_is_found(schema: Any) -> None:
    headers = [[{"key": "who", "value": "Jörg\\".encode()}, {"key": "trace", "value": b"\xff\x01"}]]
    rows = put_aside({"stream": "s", "raw": b""}).append_column("_kafka_headers", pa.array(headers))
    assert QuarantinedRows(parse("name = 'Jörg\\'", schema, "t"), {"s"}).mask(rows).to_pylist() == [True]
    assert QuarantinedRows(parse("name = 'Bo'", schema, "t"), {"s"}).mask(rows).to_pylist() == [False]


NAN = float("nan")
VALUES = [1.0, 0.0, -0.0, -5.5, NAN, None]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("v NOT IN (1, 0)", [-5.5, NAN]),
        ("NOT v IN (1, 0)", [-5.5, NAN]),
        ("v IN (1, 0)", [1.0, 0.0, -0.0]),
        ("v <> 1", [0.0, -0.0, -5.5, NAN]),
        ("NOT v = 1", [0.0, -0.0, -5.5, NAN]),
        ("v = 0", [0.0, -0.0]),
        ("v > 0", [1.0, NAN]),
        ("v >= 1", [1.0, NAN]),
        ("0.5 < v", [1.0, NAN]),
        ("NOT v > 0", [0.0, -0.0, -5.5]),
        ("v < 0", [-5.5]),
        ("NOT v < 0", [1.0, 0.0, -0.0, NAN]),
        ("NOT v <= 0", [1.0, NAN]),
        ("v NOT BETWEEN -6 AND 0", [1.0, NAN]),
        ("v BETWEEN 0 AND 2", [1.0, 0.0, -0.0]),
        ("v IS NAN", [NAN]),
        ("v IS NOT NAN", [1.0, 0.0, -0.0, -5.5]),
        ("v IS NULL", [None]),
        ("NOT (v > 0 OR v IS NULL)", [0.0, -0.0, -5.5]),
        ("NOT (v > 0 AND v IS NULL)", [1.0, 0.0, -0.0, -5.5, NAN]),
    ],
)
def test_a_condition_is_true_where_spark_shows_the_row(condition: str, wanted: list[float | None]) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, NestedField

    where = parse(condition, Schema(NestedField(1, "v", DoubleType(), required=False)), "n.t")
    gone = pa.table({"v": pa.array(VALUES, pa.float64())}).filter(where.mask(pa.table({"v": VALUES})))
    assert repr(gone.column("v").to_pylist()) == repr(wanted)
    assert repr([value for value in VALUES if where.of_values({"v": value})]) == repr(wanted), "also in quarantine"


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [("name NOT IN ('a', 'b')", ["", "ab"]), ("NOT name IN ('a')", ["", "ab"]), ("name NOT LIKE 'a%'", [""]),
     ("NOT name LIKE 'a%'", [""]), ("name <> 'a' OR id IS NULL", ["a", "", "ab", None])],
)  # fmt: skip
def test_a_text_that_is_null_stays_under_not(schema: Any, condition: str, wanted: list[str | None]) -> None:
    rows: dict[str, list[Any]] = {"id": [None] * 4, "name": ["a", "", "ab", None]}
    where = parse(condition, schema, "n.t")
    shown = where.mask(pa.table({"id": pa.array(rows["id"], pa.int64()), "name": rows["name"]})).to_pylist()
    assert [name for name, goes_ in zip(rows["name"], shown, strict=True) if goes_] == wanted
    assert [name for name in rows["name"] if where.of_values({"id": None, "name": name})] == wanted


def test_a_file_whose_bounds_leave_out_nan_is_opened() -> None:
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, NestedField

    schema = Schema(NestedField(1, "v", DoubleType(), required=False))

    def may(condition: str, nans: int) -> bool:
        bound = {1: to_bytes(DoubleType(), 0.5)}
        counts: dict[str, Any] = {"value_counts": {1: 2}, "null_value_counts": {1: 0}, "nan_value_counts": {1: nans}}
        file = DataFile.from_args(record_count=2, lower_bounds=bound, upper_bounds=bound, **counts)
        return parse(condition, schema, "n.t").may(schema)(file)

    above = ["v > 1", "v >= 1", "NOT v < 1", "NOT v <= 1", "v NOT BETWEEN 0 AND 1"]
    assert [each for each in above if not may(each, nans=1)] == []
    assert [each for each in above if may(each, nans=0)] == []


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "2026-03-01 13:00:00+01:00", "2026-03-01T12:00:00+00:00"])
def test_an_instant_has_the_spellings_of_sql_and_of_json(text: str) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, TimestamptzType

    schema = Schema(NestedField(1, "at", TimestamptzType(), required=False))
    at = pa.array([1772366400000000, None], pa.timestamp("us", "UTC"))
    assert parse(f"at = '{text}'", schema, "n.t").mask(pa.table({"at": at})).to_pylist() == [True, False]
    with pytest.raises(SpecError, match="with its zone"):
        parse("at = '2026-03-01 12:00:00'", schema, "n.t")
