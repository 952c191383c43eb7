"""The fast way of JSON: what it takes is what the rules take, and it takes the plain form of everything."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
import seeds
from decode_oracle import REFUSED, SPELLINGS, TYPES, drawn, expected
from seeds import seed

from lakeward.connectors.decode.json import JsonDecoder
from lakeward.connectors.source import DOUBT
from lakeward.spec.model.formats import Formats

_NESTED = "STRUCT<v: {0} NOT NULL, a: ARRAY<{0}>, m: MAP<STRING, {0}>>"
DDL = ", ".join(f"c{index} {kind}, s{index} {_NESTED.format(kind)}" for index, kind in enumerate(TYPES))
FORMATS = (
    Formats(),
    Formats(without_zone="refuse", decimals="text"),
    Formats(timestamps="epoch_s", decimals="number"),
    Formats(timestamps="epoch_ms"),
    Formats(timestamps="yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]X", dates="yyyyMMdd"),
)
ODD = [
    b'"', b"\\", b"\\u", b"\\ud83d", b"\\ude00", b"{", b"}", b"[", b"]", b",", b":", b"-", b"0", b"9", b".", b"e",
    b"E-", b"+", b" ", b"\n", b"\x00", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\xc3\xa4", b"null", b"true", b"NaN",
    b"'", b"//", b"T", b"Z",
]  # fmt: skip
"""What a mutation puts into a record."""
EDGES = [
    "-62135596800", "-62135596801", "253402300799", "253402300800", "-62135596800001", "253402300799999.5",
    "999999999", "1000000000", "9999999999", "10000000000", "1.", "1.1234567", '"1.5"', '""', '"."',
    '"2026/03/01"', '"2026-03/01"', '"2026-03-01x05:00:00Z"', '"2026-03-01T05.00:00Z"', '"2026-03-01T05:00.00Z"',
    '"2026-03-01T05:00:00."', '"2026-03-01T05:00:00.Z"', '"2026-03-01T05:00:00.1234560Z"', '"2026-03-01T05:00:00z"',
    '"2026-03-01T05:00:00ZZ"', '"2026-03-01T05:00:00+18:00"', '"2026-03-01T05:00:00-17:59"', '"2026-03-01T05:00:00+1"',
    '"2026-03-01T05:00:00+01.00"', '"2026-03-01T05:00:00+0160"', '"2026-00-01"', '"2026-13-01"', '"2026-01-00"',
    '"1900-02-29"', '"2026-03-0a"', '"000000001.50"', '"-.5"', '"1.2.3"', '"--1"', '"1 "', "9007199254740992.5",
    '"+999999-01-01T00:00:00Z"', '"+2147483647-01-01T00:00:00Z"', '"+10000-01-01T00:00:00Z"', '"0000-12-31T00:00:00Z"',
    '"0001-01-01T00:00:00+14"', '"9999-12-31T23:59:59.9-01:00"', '"9999-12-31T23:59:59.999999+14:00"',
]  # fmt: skip
"""Tokens at the edge of a plain form, in addition to those that every decoder is tried with."""


def _fast(spark: Any, records: list[bytes], ddl: str, formats: Formats) -> dict[int, Any]:
    """By the number of a record: why the fast way does not take it, if it does not."""
    frame = spark.createDataFrame([(record, at) for at, record in enumerate(records)], "_value BINARY, at BIGINT")
    rows = JsonDecoder(ddl, keep=("at",), formats=formats).apply_fast(frame).select("at", "_lw_reason").collect()
    return {row["at"]: row["_lw_reason"] for row in rows}


def _frames(spark: Any, records: list[bytes], ddl: str, formats: Formats) -> tuple[dict[int, Any], dict[int, Any]]:
    """By the number of a record: what the fast way and what the rules make of it, as (reason, text of all values)."""
    decoder = JsonDecoder(ddl, keep=("at",), formats=formats)
    frame = spark.createDataFrame([(record, at) for at, record in enumerate(records)], "_value BINARY, at BIGINT")
    names = ", ".join(column.name for column in decoder.schema.fields)
    as_text = ["at", "_lw_reason", f"CAST(struct({names}) AS STRING) AS row"]
    fast = decoder.apply_fast(frame).selectExpr(*as_text)
    strict = decoder.apply_strict(frame.selectExpr("at", "_value AS _lw_raw")).selectExpr(*as_text)
    taken, ruled = ({row["at"]: (row["_lw_reason"], row["row"]) for row in each.collect()} for each in (fast, strict))
    return taken, ruled


def _record(rng: random.Random, tokens: list[str]) -> bytes:
    """A record with some of the columns, most of their values fitting."""
    parts = []
    for index in rng.sample(range(len(TYPES)), rng.choice([1, 1, 2, 3])):
        kind = list(TYPES)[index]
        fitting = [token for token in tokens if expected(kind, token) != REFUSED]
        token = rng.choice(fitting if fitting and rng.random() < 0.8 else tokens)
        if rng.random() < 0.3:
            repeated = "k" if rng.random() < 0.1 else "l"
            inner = f'"v":{token},"a":[{token},null],"m":{{"k":{token},"{repeated}":null}}'
            parts.append(f'"s{index}":{{{inner}}}')
        else:
            other = rng.choice([token, f"[{token}]", f'{{ "x" : {token}}}']) if rng.random() < 0.2 else token
            parts.append(f'"c{index}":{other}')
    return ("{" + ",".join(parts) + "}").encode()


def _mutated(rng: random.Random, record: bytes) -> bytes:
    at, to = sorted(rng.randrange(len(record) + 1) for _ in range(2))
    match rng.randrange(4):
        case 0:
            return record[:at] + rng.choice(ODD) + record[at:]
        case 1:
            return record[:at] + record[min(to, at + 3) :]
        case 2:
            return record[:at] + record[at:to] + record[at:to] + record[to:]
        case _:
            return record[:at] + rng.choice(ODD) + record[at + 1 :]


@pytest.mark.seeded
@pytest.mark.parametrize(
    "formats",
    [
        # `test_exact.py` tries the default formats with each spelling in each type.
        each
        if each == FORMATS[4]
        else pytest.param(each, marks=pytest.mark.campaign(held_by="test_what_is_taken_is_what_the_rules_take"))
        for each in FORMATS
    ],
    ids=lambda formats: f"{formats.timestamps[:8]}-{formats.without_zone}",
)
def test_what_is_taken_is_what_the_rules_take(spark: Any, interpreted: None, formats: Formats) -> None:
    rng = random.Random(seed(20261128))
    tokens = [*SPELLINGS, *drawn(rng, 300)]
    if formats.dates != "iso":
        tokens += ['"20260301"', '"2026-03-01T05:00:00Z"', '"2026-03-01T05:00:00.25+02"'] * 20
    records = [_record(rng, rng.sample(tokens, 40)) for _ in range(1500 if os.environ.get(seeds.VARIABLE) else 600)]
    records += [_mutated(rng, record) for record in records]
    edges = [*SPELLINGS, *EDGES] if formats == FORMATS[0] else EDGES
    records += [f'{{"c{index}":{token}}}'.encode() for token in edges for index in range(len(TYPES))]
    taken, ruled = _frames(spark, records, DDL, formats)
    certain = [at for at, (reason, _) in taken.items() if reason is None]
    wrong = [(records[at], taken[at], ruled[at]) for at in certain if taken[at] != ruled[at]]
    assert not wrong, f"{len(wrong)} of {len(certain)}:\n" + "\n".join(map(repr, wrong[:20]))
    assert len(certain) > len(records) / 12, (
        "the fast way takes a good part of the records, so that there is something to compare"
    )


PLAIN: list[tuple[Formats, str, list[str]]] = [
    (Formats(), "SMALLINT", ["0", "-32768", "32767"]),
    (Formats(), "INT", ["0", "-0", "-2147483648", "2147483647"]),
    (Formats(), "BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    (Formats(), "DOUBLE", ["0", "-0", "0.0", "1", "1.5", "-0.1", "0.30000000000000004", "1e-7", "9007199254740991",
                           "1234567890.12345"]),
    (Formats(), "FLOAT", ["0", "-0.0", "1.5", "16777215", "3.14159274"]),
    (Formats(), "BOOLEAN", ["true", "false"]),
    (Formats(), "STRING", ['""', '"x"', '"\u00e4\U0001f600"', '"\\ud83d\\ude00"', "12.50", "-0", "1E2", "true",
                           '{ "a": [1.50, "\\n"] }', "[ ]"]),
    (Formats(), "BINARY", ['""', '"YWJj"', '"YWI="']),
    (Formats(), "DECIMAL(6,2)", ["0", "-0.5", "12.50", "12.5000", "9999.99", '"12.50"', "7"]),
    (Formats(), "DECIMAL(38,10)", ["0.0000000001", "1234567890123456789012345678.5", "-0"]),
    (Formats(), "DATE", ['"0001-01-01"', '"2024-02-29"', '"9999-12-31"']),
    (Formats(), "TIMESTAMP", ['"2026-03-01T05:00:00Z"', '"2026-03-01 05:00:00"', '"2026-03-01T05:00:00.1+05:45"',
                              '"2026-03-01T05:00:00.123456000-0930"', '"1969-12-31T23:59:59.999999+14"']),
    (Formats(), "TIMESTAMP_NTZ", ['"2026-03-01T05:00:00.25"', '"2026-03-01 05:00:00"']),
    (Formats(timestamps="epoch_s"), "TIMESTAMP", ["0", "-1", "1357034400", "1357034400.5", '"1357034400"',
                                                  "253402300799"]),
    (Formats(timestamps="epoch_ms"), "TIMESTAMP", ["0", "1357034400000", "1357034400250.125", "-62135596800000"]),
    (Formats(timestamps="dd.MM.yyyy HH:mm:ss"), "TIMESTAMP", ['"01.01.2013 10:00:00"']),
    (Formats(dates="yyyyMMdd"), "DATE", ['"20130101"', "20130101"]),
    (Formats(decimals="text"), "DECIMAL(6,2)", ['"12.50"']),
    (Formats(decimals="number"), "DECIMAL(6,2)", ["12.50"]),
]  # fmt: skip


def test_no_plain_form_is_in_doubt(spark: Any, interpreted: None) -> None:
    """A record in doubt costs several times as much to read, so what producers write must not be."""
    wrong = []
    for formats, kind, tokens in PLAIN:
        records = [
            f'{{"\u00fc":{{"k":[1,"\\ud800"]}},"v":{token},"s":{{"v":{token}}},"a":[null,{token}],"m":{{"k":{token}}}}}\n'
            for token in tokens
        ]
        ddl = f"v {kind} NOT NULL, s STRUCT<v: {kind} NOT NULL>, a ARRAY<{kind}>, m MAP<STRING, {kind}>"
        taken = _fast(spark, [record.encode() for record in records], ddl, formats)
        wrong += [(formats, kind, tokens[at]) for at, reason in sorted(taken.items()) if reason is not None]
    assert not wrong


def test_a_zone_does_not_lead_out_of_the_years_1_to_9999(spark: Any, interpreted: None) -> None:
    inside = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00-14:00", "9999-12-31T23:59:59.999999+01:00"]
    outside = ["0001-01-01T00:00:00+00:01", "9999-12-31T23:00:00-01:00", "9999-12-31 23:59:59.999999-00:01"]
    records = [f'{{"v":"{text}"}}'.encode() for text in (*inside, *outside)]
    for taken in _frames(spark, records, "v TIMESTAMP", Formats()):
        assert [taken[at][0] is None for at in range(len(records))] == [True] * 3 + [False] * 3


RULES_ONLY = [
    b'\xef\xbb\xbf{"v":"1"}',
    '{"v":"1"}'.encode("utf-16-le"),
    '{"v":"1"}'.encode("utf-32-be"),
    b'{"v":"1"} x',
    b'{"v":"1"}{}',
    b'[{"v":"1"}]',
    b"",
    b"null",
    b'{"v":"\\ud83d"}',
    b'{"v":{"x":"\\udC00"}}',
    b'{"m":{"\\ud83d":"1"}}',
    b'{"m":{"k":"1","k":"2"}}',
    b'{"v":"\xed\xa0\x80"}',
    b'{"v":"\xc0\xaf"}',
    b'{"u":"\xf5\x80\x80\x80"}',
    b'{"r":{}}',
    b'{"r":{"v":null}}',
    b'{"r":{"v":1,"v":null}}',
    b"{'v':1}",
    b'{"v":NaN}',
    b'{"v":01}',
    b'{"v":1,}',
    b'{"v":1 /* */}',
    b'{"u":' + b"[" * 1100 + b"]" * 1100 + b"}",
]


def test_what_only_the_rules_may_judge_is_in_doubt(spark: Any, interpreted: None) -> None:
    decoder = JsonDecoder("v STRING, m MAP<STRING, STRING>, r STRUCT<v: INT NOT NULL>", keep=("at",))
    frame = spark.createDataFrame(list(zip(RULES_ONLY, range(len(RULES_ONLY)), strict=True)), "_value BINARY, at INT")
    rows = {row["at"]: (row["_lw_reason"], bytes(row["_lw_raw"])) for row in decoder.apply_fast(frame).collect()}
    assert {at: raw for at, (_, raw) in rows.items()} == dict(enumerate(RULES_ONLY))
    assert [RULES_ONLY[at] for at, (reason, _) in rows.items() if reason not in (DOUBT, "decode")] == []


def test_a_record_longer_than_allowed_is_not_read(spark: Any) -> None:
    record = json.dumps({"v": "x" * 100}).encode()
    frame = spark.createDataFrame([(record,)], "_value BINARY")
    for longest, reason in ((len(record) - 1, "too_large"), (len(record), None)):
        [row] = JsonDecoder("v STRING", longest).apply_fast(frame).collect()
        assert (row["_lw_reason"], row["v"]) == (reason, None if reason else "x" * 100)
