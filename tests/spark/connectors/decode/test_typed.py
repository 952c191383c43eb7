"""Typed records of a file: a text that is not UTF-8, a required field without a value, and a key that occurs twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.connectors.decode.columns import ColumnsDecoder

DDL = "n INT, s STRING NOT NULL, a ARRAY<STRUCT<t: STRING, r: INT NOT NULL>>, m MAP<STRING, ARRAY<STRING>>"


def texts(*values: bytes | None) -> pa.Array:
    """A column of texts with these bytes, whatever they are."""
    return pa.array(values, pa.binary()).view(pa.string())


def test_a_flaw_at_any_depth_is_quarantined_with_its_path(spark: Any, interpreted: None, tmp_path: Path) -> None:
    rows = 8
    inner = pa.StructArray.from_arrays(
        [texts(b"a", None, b"b\xff", b"d", b"e", b"f"), pa.array([1, 2, 3, None, 5, 6], pa.int32())], ["t", "r"],
        mask=pa.array([False, False, False, False, True, False]),
    )  # fmt: skip
    columns = {
        "n": pa.array(range(rows), pa.int32()),
        "s": texts(b"\xc3\xa9\x00", b"\xc3(", None, b"x", b"x", b"x", b"x", b"x"),
        "a": pa.ListArray.from_arrays(pa.array([0, 1, 1, 1, 3, 4, None, 6, 6], pa.int32()), inner),
        "m": pa.MapArray.from_arrays(
            pa.array([0, 1, 1, 1, 1, 1, 3, 4, 5], pa.int32()),
            texts(b"k", b"k", b"k", b"\xfe", b"ok"),
            pa.ListArray.from_arrays(pa.array([0, 1, 1, 1, 1, 2], pa.int32()), texts(b"fine", b"\x80")),
        ),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    frame = spark.read.schema(DDL).parquet(str(tmp_path)).selectExpr(f"struct({', '.join(columns)}) AS r")
    found = {row["n"]: row for row in ColumnsDecoder(DDL, "r").apply(frame, []).collect()}
    assert {n: row["_lw_error"] for n, row in found.items()} == {
        0: None,
        1: "s: not UTF-8: \ufffd(",
        2: "s: required, but missing or null",
        3: "a[1].t: not UTF-8: b\ufffd",
        4: "a[0].r: required, but missing or null",
        5: "m: a key of this MAP occurs twice",
        6: "m key[0]: not UTF-8: \ufffd",
        7: "m value[0][0]: not UTF-8: \ufffd",
    }
    assert found[0]["s"] == "é\0" and found[0]["_lw_reason"] is None
    assert {row["_lw_reason"] for n, row in found.items() if n} == {"decode"}
