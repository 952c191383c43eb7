"""Wide and deep records: expressions are flat, so their depth does not grow with the number of columns."""

from __future__ import annotations

import json
from typing import Any

from lakeward.connectors.decode.json import JsonDecoder
from lakeward.connectors.source import RAW, REASON

COLUMNS = 1000


def _decoded(spark: Any, ddl: str, records: list[str]) -> tuple[list[Any], list[Any]]:
    frame = spark.createDataFrame([(record.encode(), at) for at, record in enumerate(records)], "_value BINARY, at INT")
    decoder = JsonDecoder(ddl, keep=("at",))
    decoded = decoder.apply(frame).persist()
    rows = sorted(decoded.collect(), key=lambda row: row["at"])
    said = decoder.explain(decoded.where(f"{REASON} IS NOT NULL").select("at", REASON, RAW)).collect()
    decoded.unpersist()
    return rows, sorted((row["at"], row["_lw_error"]) for row in said)


def test_a_thousand_columns(spark: Any) -> None:
    ddl = ", ".join(f"c{index} DOUBLE{' NOT NULL' if index == 500 else ''}" for index in range(COLUMNS))
    good = {f"c{index}": index / 8 for index in range(COLUMNS)}
    lost = json.dumps(good | {"c999": 0}).replace('"c999": 0', '"c999": 9007199254740993')
    exact = json.dumps(good | {"c999": 2**60})
    rows, said = _decoded(spark, ddl, [json.dumps(good), lost, exact, "{}"])
    assert [rows[0][f"c{index}"] for index in range(COLUMNS)] == list(good.values())
    assert rows[2]["c999"] == 2.0**60
    assert said == [
        (1, "c999: not DOUBLE: 9007199254740993, it would become 9.007199254740992E15"),
        (3, "c500: required, but missing or null"),
    ]


def test_eight_levels(spark: Any) -> None:
    kind = "STRUCT<d: DECIMAL(4,1) NOT NULL, t: TIMESTAMP>"
    good, bad = '{"d":1.5,"t":"2026-03-01T00:00:00Z"}', '{"t":null}'
    path = ""
    for level in range(7):
        array = level % 2 == 0
        kind = f"ARRAY<{kind}>" if array else f"STRUCT<l{level}: {kind}>"
        good, bad = (f"[{one}]" if array else f'{{"l{level}":{one}}}' for one in (good, bad))
        path = ("[0]" if array else f".l{level}") + path
    rows, said = _decoded(spark, f"x {kind}", [f'{{"x":{good}}}', f'{{"x":{bad}}}'])
    assert str(rows[0]["x"]).count("Decimal('1.5')") == 1
    assert said == [(1, f"x{path}.d: required, but missing or null")]
