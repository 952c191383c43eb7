"""Value out = value in: each spelling in a column of each type, at each depth, in two time zones, against an oracle."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from decode_oracle import MAY, REFUSED, SPELLINGS, TYPES, drawn, expected, value_of
from seeds import seed

from lakeward.connectors.decode.columns import ColumnsDecoder
from lakeward.connectors.decode.json import JsonDecoder

SHAPES = {
    "{}": ("{}", lambda value: value),
    "STRUCT<v: {}>": ('{{"v":{}}}', lambda value: value["v"]),
    "ARRAY<STRUCT<v: {}>>": ('[{{"v":{}}}]', lambda value: value[0]["v"]),
    "MAP<STRING, ARRAY<{}>>": ('{{"k":[null,{}]}}', lambda value: value["k"][1]),
}
"""Type around a type -> its JSON, and where the value is in it."""
_COMPARED = {"TIMESTAMP": "DECIMAL(24,6)", "TIMESTAMP_NTZ": "DECIMAL(24,6)", "DATE": "STRING"}


@contextmanager
def zone(spark: Any, name: str) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _schema(spell: Any = lambda kind: kind) -> dict[str, str]:
    return {
        f"c{index}_{place}": shape.replace("{}", spell(kind))
        for index, kind in enumerate(TYPES)
        for place, shape in enumerate(SHAPES)
    }


def rendered(kind: str, value: Any) -> Any:
    """A value that Spark returned, as the oracle shows it."""
    if value is None:
        return None
    if kind.startswith("TIMESTAMP"):
        return int(value * 10**6)
    if kind == "BINARY":
        return bytes(value)
    return Decimal(value) if kind.startswith("DECIMAL") else value


def _run(spark: Any, records: list[str]) -> dict[int, Any]:
    """The decoded rows; times as seconds, because Python's depend on the machine's zone."""
    ddl = ", ".join(f"{name} {kind}" for name, kind in _schema().items())
    frame = spark.createDataFrame([(r.encode(), i) for i, r in enumerate(records)], "_value BINARY, at BIGINT")
    decoded = JsonDecoder(ddl, keep=("at",)).apply(frame)
    with_utc = _schema(lambda kind: "STRING" if kind == "TIMESTAMP_NTZ" else _COMPARED.get(kind, kind))
    columns = [f"CAST({name} AS {kind}) AS {name}" for name, kind in with_utc.items()]
    rows = decoded.selectExpr("at", "_lw_reason AS bad", *columns).collect()
    return {row["at"]: row for row in rows}


@pytest.mark.seeded
@pytest.mark.parametrize("session", ["America/New_York", pytest.param("UTC", marks=pytest.mark.campaign)])
def test_every_spelling_in_every_type(spark: Any, interpreted: None, session: str) -> None:
    rng = random.Random(seed(20260301))
    cases = [(kind, token) for token in [*SPELLINGS, *drawn(rng, 200)] for kind in TYPES]
    placed = [(kind, token, rng.randrange(len(SHAPES))) for kind, token in cases]
    shapes = list(SHAPES.values())
    names = {kind: index for index, kind in enumerate(TYPES)}
    records = [f'{{"c{names[k]}_{place}":{shapes[place][0].format(token)}}}' for k, token, place in placed]
    with zone(spark, session):
        rows = _run(spark, records)
    wrong = []
    for at, (kind, token, place) in enumerate(placed):
        row, want = rows[at], expected(kind, token)
        got: Any = REFUSED
        if row["bad"] is None:
            got = rendered_at(kind, shapes[place][1](row[f"c{names[kind]}_{place}"]))
        if isinstance(want, tuple) and want[0] == MAY:
            want = got if got in (REFUSED, want[1]) else want[1]
        if got != want or type(got) is not type(want):
            wrong.append(f"{records[at]} in {kind}: {got!r}, the oracle says {want!r}")
    assert not wrong, f"{len(wrong)} of {len(placed)}:\n" + "\n".join(wrong[:40])


@pytest.mark.seeded
@pytest.mark.parametrize("session", ["UTC", pytest.param("America/New_York", marks=pytest.mark.campaign)])
def test_every_spelling_in_every_type_of_csv(spark: Any, interpreted: None, session: str) -> None:
    rng = random.Random(seed(20260302))
    tokens = [token for token in [*SPELLINGS, *drawn(rng, 200)] if token != "null" and "\\u" not in token]
    texts = [json.loads(token) if token.startswith('"') else token for token in tokens]
    kinds = [kind for kind in TYPES if kind != "BINARY"]
    cases = [(kind, text) for text in texts for kind in kinds]
    fields = ", ".join(f"c{index}: STRING" for index in range(len(kinds)))
    blank: list[str | None] = [None] * len(kinds)
    rows = [
        ((*blank[: kinds.index(kind)], text, *blank[kinds.index(kind) + 1 :], None), at)
        for at, (kind, text) in enumerate(cases)
    ]
    frame = spark.createDataFrame(rows, f"r STRUCT<{fields}, bad: STRING>, at BIGINT")
    ddl = ", ".join(f"c{index} {kind}" for index, kind in enumerate(kinds))
    columns = [
        f"CAST(c{i} AS {'STRING' if kind == 'TIMESTAMP_NTZ' else _COMPARED.get(kind, kind)}) AS c{i}"
        for i, kind in enumerate(kinds)
    ]
    with zone(spark, session):
        decoded = ColumnsDecoder(ddl, "r", "bad").apply(frame, ["at"]).selectExpr("at", "_lw_error AS bad", *columns)
        found = {row["at"]: row for row in decoded.collect()}
    wrong = []
    for at, (kind, text) in enumerate(cases):
        want = value_of(kind, text if kind == "STRING" else text.strip(" "), string=True, literal=True)
        got = REFUSED if found[at]["bad"] else rendered_at(kind, found[at][f"c{kinds.index(kind)}"])
        if isinstance(want, tuple) and want[0] == MAY:
            want = got if got in (REFUSED, want[1]) else want[1]
        if got != want and str(got) != str(want):  # NaN is not equal to itself
            wrong.append(f"{text!r} in {kind}: {got!r}, the oracle says {want!r} ({found[at]['bad']})")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:40])


def rendered_at(kind: str, value: Any) -> Any:
    """`rendered`; a local time comes as text, because its cast to a number depends on the session."""
    if kind == "TIMESTAMP_NTZ" and value is not None:
        from datetime import datetime, timedelta

        return (datetime.fromisoformat(value) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return rendered(kind, value)


DIGITS = 300_000


LONG = [
    ("DECIMAL(10,2)", "0." + "1" * DIGITS, False),
    ("DECIMAL(10,2)", f'"{"1" * DIGITS}x"', False),
    ("DECIMAL(38,0)", "1" * DIGITS, False),
    ("DECIMAL(10,2)", "0.5" + "0" * 398, False),
    ("DECIMAL(10,2)", "0.5" + "0" * 397, True),
    ("DOUBLE", "1" + "0" * 100 + "." + "0" * DIGITS + "1", False),
    ("DOUBLE", "12345678901234567890." + "1" * DIGITS, False),
    ("DOUBLE", "0." + "1" * DIGITS, True),
]


def test_a_number_of_any_length_is_judged_soon(spark: Any) -> None:
    """Without the bound each of them takes minutes or hours: arithmetic and patterns that grow with the square."""
    kinds = sorted({kind for kind, _, _ in LONG})
    records = [(f'{{"v{kinds.index(kind)}":{token}}}'.encode(), at) for at, (kind, token, _) in enumerate(LONG)]
    frame = spark.createDataFrame(records, "_value BINARY, at BIGINT")
    decoder = JsonDecoder(", ".join(f"v{index} {kind}" for index, kind in enumerate(kinds)), keep=("at",))
    for decoded in (decoder.apply(frame), decoder.apply_strict(frame.selectExpr("at", "_value AS _lw_raw"))):
        rows = {row["at"]: row["_lw_reason"] for row in decoded.select("at", "_lw_reason").collect()}
        assert {at: reason is None for at, reason in rows.items()} == dict(enumerate(taken for _, _, taken in LONG))
        said = {
            row["at"]: row["_lw_error"] for row in decoder.explain(decoded.where("_lw_reason IS NOT NULL")).collect()
        }
        for at, (kind, _, taken) in enumerate(LONG):
            assert taken or f"v{kinds.index(kind)}: not {kind}" in said[at], at


def test_a_text_of_many_digits_in_a_csv_is_judged_soon(spark: Any) -> None:
    rows = [((f"{'1' * DIGITS}x", None),)]
    frame = spark.createDataFrame(rows, "r STRUCT<v: STRING, bad: STRING>")
    decoded = ColumnsDecoder("v DOUBLE", "r", "bad").apply(frame, [])
    assert "v: not DOUBLE" in decoded.collect()[0]["_lw_error"]
