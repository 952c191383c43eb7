"""Declared formats: epoch numbers and patterns, the same in every time zone of a session."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.decode.json import JsonDecoder
from lakeward.spec.model.formats import Formats

REFUSED = "refused"
SECONDS = 1357034400
DAY = "2013-01-01"
CASES: list[tuple[Formats, str, dict[str, Any]]] = [
    (Formats(timestamps="epoch_s"), "TIMESTAMP", {
        "1357034400": SECONDS, "1357034400.5": SECONDS + 0.5, '"1357034400"': SECONDS, "-1": -1, "0": 0,
        "1357034400000": REFUSED, "253402300800": REFUSED, "9223372036854775807": REFUSED, "1e9": REFUSED,
        "1357034400.1234567": REFUSED, '"2013-01-01T10:00:00Z"': REFUSED, "true": REFUSED,
    }),
    (Formats(timestamps="epoch_ms"), "TIMESTAMP", {
        "1357034400000": SECONDS, "1357034400250": SECONDS + 0.25, "0": 0, "-86400000": -86400,
        "1357034400": REFUSED, "1357034400000000": REFUSED, "9223372036854775807": REFUSED,
    }),
    (Formats(timestamps="dd.MM.yyyy HH:mm:ss"), "TIMESTAMP", {
        '"01.01.2013 10:00:00"': SECONDS, '"31.02.2013 10:00:00"': REFUSED, '"01.01.2013 10:00"': REFUSED,
        '"01.01.2013 10:00:00 x"': REFUSED, '"10.03.2013 02:30:00"': 1362882600,
    }),
    (Formats(timestamps="yyyy-MM-dd HH:mm:ssXXX"), "TIMESTAMP", {
        '"2013-01-01 11:00:00+01:00"': SECONDS, '"2013-01-01 11:00:00"': REFUSED,
    }),
    (Formats(without_zone="refuse"), "TIMESTAMP", {
        '"2013-01-01T10:00:00"': REFUSED, '"2013-01-01T10:00:00Z"': SECONDS,
    }),
    (Formats(dates="yyyyMMdd"), "DATE", {
        '"20130101"': DAY, "20130101": DAY, '"2013-01-01"': REFUSED, '"20130231"': REFUSED,
    }),
    (Formats(dates="dd.MM.yyyy"), "DATE", {'"01.01.2013"': DAY, '"1.1.2013"': REFUSED}),
    (Formats(timestamps="dd.MM.yyyy HH:mm"), "TIMESTAMP_NTZ", {'"10.03.2013 02:30"': "2013-03-10 02:30:00"}),
    (Formats(decimals="text"), "DECIMAL(6,2)", {'"12.50"': "12.50", "12.50": REFUSED}),
    (Formats(decimals="number"), "DECIMAL(6,2)", {'"12.50"': REFUSED, "12.50": "12.50"}),
]  # fmt: skip


@pytest.mark.parametrize(
    "zone",
    [pytest.param("UTC", marks=pytest.mark.campaign(held_by="test_declared_formats")), "America/New_York"],
)
def test_declared_formats(spark: Any, interpreted: None, zone: str) -> None:
    wrong = []
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for formats, kind, cases in CASES:
            records = [(f'{{"x":[{token}]}}'.encode(), token) for token in cases]
            frame = spark.createDataFrame(records, "_value BINARY, token STRING")
            decoded = JsonDecoder(f"x ARRAY<{kind}>", keep=("token",), formats=formats).apply(frame)
            shown = "DOUBLE" if kind == "TIMESTAMP" else "STRING"
            for row in decoded.selectExpr("token", f"CAST(x[0] AS {shown}) AS x", "_lw_reason").collect():
                got = REFUSED if row["_lw_reason"] else row["x"]
                if got != cases[row["token"]]:
                    wrong.append((formats, row["token"], got, cases[row["token"]]))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert not wrong
