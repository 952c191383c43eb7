"""Declared JSON: every record has all its values or a reason."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.decode.json import KEPT_BYTES, JsonDecoder
from lakeward.platform.errors import SpecError

DDL = (
    "i INT, l BIGINT, s STRING, d DOUBLE, f FLOAT, b BOOLEAN, dec DECIMAL(6,2), dt DATE, t TIMESTAMP, "
    "arr ARRAY<INT>, o STRUCT<x: INT, f: FLOAT>"
)
GOOD = [
    '{"i":1,"l":5,"s":"x","d":1.5,"f":2.5,"b":true,"dec":12.34,"dt":"2013-01-02","t":"2013-01-01T05:00:00Z",'
    '"arr":[1,2],"o":{"x":1}}',
    "{}", '{"i":null}', '{"unknown":{"deep":[1,{"y":2}]}}', ' {"i":1} ', '{"d":5}', '{"s":12}', '{"s":{"a":1}}',
    '{"t":"2013-01-01 05:00:00"}', '{"s":"} ] , {"}', '{"s":"\\u00e4 \\" \\\\"}',
    '{"u":"\\ud800"}', '{"u":["x\\\\\\udc00"],"\\ud800":1,"s":"\\ud83d\\ude00","t":"2013-01-01 05:00:00"}',
    *(f'{{"u":{"[" * 999}{"]" * 999}{more}}}' for more in ("", ',"t":"2013-01-01 05:00:00"')),
]  # fmt: skip
DEEP = "nested deeper than 1,000 levels, and no deeper record is read"
LONG = "a field name of more than 50,000 characters, and no longer one is read"
BAD = {
    None: "no value (a tombstone)",
    "": "not one JSON object",
    "   ": "not one JSON object",
    "junk": "not one JSON object",
    "5": "not one JSON object",
    '"x"': "not one JSON object",
    "null": "null, not a JSON object",
    "[]": "an array, not one JSON object",
    '[{"i":1}]': "an array, not one JSON object",
    '{"i":1': "not one JSON object",
    '{"i":1} xyz': "not one JSON object",
    '{"i":1}{"i":2}': "not one JSON object",
    '{"i":1},{"i":2}': "not one JSON object",
    '{"i":1}] xyz': "not one JSON object",
    '{"i":1},"z":{}': "not one JSON object",
    "{'i':1}": "not one JSON object",
    '{"d":NaN}': "not one JSON object",
    '{"i":007}': "not one JSON object",
    '{"o":' * 1500 + "1" + "}" * 1500: DEEP,
    '{"u":' + "[" * 1000 + "]" * 1000 + "}": DEEP,
    '{"u":' + "[" * 1000 + "]" * 999 + "}": "not one JSON object",
    f'{{"{"x" * 50_001}":1}}': LONG,
    f'{{"{"x" * 50_000}":1': "not one JSON object",
    b'{"s":"\xff"}': "not UTF-8",
    '{"i":"12"}': 'i: not INT: "12"',
    '{"i":12.5}': "i: not INT: 12.5",
    '{"i":1e2}': "i: not INT: 1e2",
    '{"i":3000000000}': "i: not INT: 3000000000",
    '{"i":true}': "i: not INT: true",
    '{"i":""}': 'i: not INT: ""',
    '{"l":99999999999999999999}': "l: not BIGINT: 99999999999999999999",
    '{"d":"1.5"}': 'd: not DOUBLE: "1.5"',
    '{"d":"NaN"}': 'd: not DOUBLE: "NaN"',
    '{"d":1e400}': "d: number too large for DOUBLE: 1e400",
    '{"f":1e300}': "f: number too large for FLOAT: 1e300",
    '{"b":"true"}': 'b: not BOOLEAN: "true"',
    '{"dec":123456.1}': "dec: not DECIMAL(6,2): 123456.1",
    '{"dt":"2013-02-30"}': 'dt: not DATE: "2013-02-30"',
    '{"t":"soon"}': 't: not TIMESTAMP: "soon"',
    '{"t":""}': 't: not TIMESTAMP: ""',
    '{"arr":5}': "arr: not ARRAY: 5",
    '{"arr":[1,"x"]}': 'arr[1]: not INT: "x"',
    '{"o":{"x":"y"}}': 'o.x: not INT: "y"',
    '{"t":1357034400}': "t: not TIMESTAMP: 1357034400",
    '{"dt":20260301}': "dt: not DATE: 20260301",
    '{"dt":"20260301"}': 'dt: not DATE: "20260301"',
    '{"dt":"2026-03-01T22:00:00-05:00"}': 'dt: not DATE: "2026-03-01T22:00:00-05:00", it would become 2026-03-01',
    '{"dec":"12,50"}': 'dec: not DECIMAL(6,2): "12,50"',
    '{"dec":12.345}': "dec: not DECIMAL(6,2): 12.345, it would become 12.35",
    '{"o":{"f":1e39}}': "o.f: number too large for FLOAT: 1e39",
    '{"d":9007199254740993}': "d: not DOUBLE: 9007199254740993, it would become 9.007199254740992E15",
    '{"d":1e-400}': "d: not DOUBLE: 1e-400, it would become 0.0",
    '{"s":{"a":"\\ud800"}}': "half of a surrogate pair (\\ud800 to \\udfff) in a string",
    '{"s":"\\ud800"}': "half of a surrogate pair (\\ud800 to \\udfff) in a string",
    b'\xef\xbb\xbf{"i":1}': "begins with EF BB BF: a byte order mark of UTF-8; the producer must write UTF-8 "
    "without one",
    b'\x00\x00\x00\x00\x07{"i":1}': "begins with 00: the magic byte of Confluent's schema registry, with schema id 7; "
    "the producer must write plain JSON, without the registry's serializer",
    '{"i":"a","b":2,"arr":[1]}': 'i: not INT: "a"; b: not BOOLEAN: 2',
}


def _decode(spark: Any, values: list[Any], ddl: str = DDL) -> list[tuple[Any, str | None]]:
    """Each record decoded, and what is said of it; null for a good one."""
    raw = [(value.encode() if isinstance(value, str) else value, index) for index, value in enumerate(values)]
    frame = spark.createDataFrame(raw, "_value BINARY, _kafka_offset BIGINT")
    decoder = JsonDecoder(ddl, keep=("_kafka_offset",))
    decoded = decoder.apply(frame).persist()
    bad = decoder.explain(decoded.where("_lw_reason IS NOT NULL"))
    said = {row["_kafka_offset"]: row["_lw_error"] for row in bad.collect()}
    rows = sorted(decoded.collect(), key=lambda row: row["_kafka_offset"])
    decoded.unpersist()
    assert {row["_lw_reason"] for row in rows if row["_kafka_offset"] in said} <= {"decode"}
    return [(row, said.get(row["_kafka_offset"])) for row in rows]


def test_every_kind_of_record(spark: Any) -> None:
    found = _decode(spark, [*GOOD, *BAD])
    good, bad = [row for row, _ in found[: len(GOOD)]], found[len(GOOD) :]
    assert [error for _, error in found[: len(GOOD)]] == [None] * len(GOOD)
    assert {key: error for key, (_, error) in zip(BAD, bad, strict=True)} == BAD
    assert (good[0]["i"], good[0]["arr"], good[0]["o"]["x"], str(good[0]["dec"])) == (1, [1, 2], 1, "12.34")
    assert good[6]["s"] == "12", "whatever JSON stands where STRING is declared keeps its text"
    assert good[9]["s"] == "} ] , {"
    assert good[12]["s"] == "\U0001f600", "half of a pair in what is not declared is no reason"


def test_records_in_doubt_that_are_read_apart_become_the_same_rows(spark: Any) -> None:
    """A batch plans the strict way only if the fast way left records in doubt; a streaming plan has both."""
    records = [value.encode() if isinstance(value, str) else value for value in [*GOOD, *BAD, None, b"\xff"]]
    frame = spark.createDataFrame(list(zip(records, range(len(records)), strict=True)), "_value BINARY, at BIGINT")
    decoder = JsonDecoder(DDL, max_bytes=200, keep=("at",))
    fast = decoder.apply_fast(frame)
    apart = decoder.apply_strict(fast.where("_lw_reason = 'doubt'"))
    together = fast.where("_lw_reason IS NULL OR _lw_reason <> 'doubt'").unionByName(apart)
    assert {row["_lw_reason"] for row in fast.collect()} >= {None, "doubt", "decode"}
    assert sorted(map(repr, together.collect())) == sorted(map(repr, decoder.apply(frame).collect()))


def test_what_is_kept_of_a_bad_record(spark: Any) -> None:
    long = '{"i":"' + "x" * KEPT_BYTES
    [(row, error)] = _decode(spark, [long], "i INT")
    decoder = JsonDecoder("i INT")
    frame = spark.createDataFrame([(long.encode(),)], "_value BINARY")
    [kept] = decoder.explain(decoder.apply(frame)).collect()
    assert (bytes(row["_lw_raw"]), error) == (long.encode(), "not one JSON object")
    assert bytes(kept["_lw_raw"]) == long[:KEPT_BYTES].encode()


def test_a_required_column_must_have_a_value(spark: Any) -> None:
    found = _decode(spark, ['{"i":1}', "{}", '{"i":null}'], "i INT NOT NULL")
    assert [error for _, error in found] == [None, *["i: required, but missing or null"] * 2]


def test_a_record_cannot_close_the_envelope_by_itself(spark: Any) -> None:
    [(_, error)] = _decode(spark, ['{"i":1},{"end_0":true}],"r":[{"i":2}'], "i INT")
    assert error == "not one JSON object"


def test_a_type_that_would_wrap_around_is_refused(spark: Any) -> None:
    with pytest.raises(SpecError, match="cannot be TINYINT"):
        _ = JsonDecoder("a ARRAY<TINYINT>").schema


def test_names_that_need_quoting(spark: Any) -> None:
    [(row, error)] = _decode(spark, ['{"a b":1,"c.d":"x"}'], "`a b` INT, `c.d` STRING")
    assert (row["a b"], row["c.d"], error) == (1, "x", None)
