"""Values in the files of a file sink: a reader of the format's standard finds what the rows held."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.folder.writer import FolderWriter

TEXTS = [" blank ", "\ttab\t", 'a "quote"', '"', "\\", 'end\\"', "a,b\\", "two\nlines", "win\r\ndows", "#text", "ä😀"]
TIMES = ["2026-03-01T05:00:00.123456", "2026-03-01T05:00:00.000000", "1883-11-18T12:00:00.000001"]


@pytest.fixture(params=["UTC", pytest.param("America/New_York", marks=pytest.mark.campaign)])
def zone(spark: Any, request: pytest.FixtureRequest) -> Any:
    """The session's time zone; New York's offset before 1883-11-18 has seconds."""
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def written(spark: Any, folder: Path, format: str) -> list[Path]:
    """The files of a batch with every text and time."""
    rows = [(n, TEXTS[n % len(TEXTS)], TIMES[n % len(TIMES)]) for n in range(len(TEXTS))]
    frame = spark.createDataFrame(rows, "n INT, s STRING, t STRING").coalesce(1)
    frame = frame.selectExpr(
        "n", "s", "CAST(concat(t, 'Z') AS TIMESTAMP) AS at", "CAST(t AS TIMESTAMP_NTZ) AS local",
        "IF(n = 0, NULL, CAST(n AS DECIMAL(38,18)) / 3) AS d",
    )  # fmt: skip
    writer = FolderWriter(spark, "s", str(folder), "none", stateful=False, path=folder, format=format)
    assert writer.write(frame, folder) == len(TEXTS)
    return sorted(folder.glob(f"*.{format}"))


def check(rows: list[dict[str, Any]]) -> None:
    rows = sorted(rows, key=lambda row: int(row["n"]))
    assert [row["s"] for row in rows] == TEXTS
    for number, row in enumerate(rows):
        time = datetime.fromisoformat(TIMES[number % len(TIMES)])
        at = datetime.fromisoformat(row["at"].replace("Z", "+00:00"))
        assert at.replace(tzinfo=None) - (at.utcoffset() or timedelta(0)) == time
        assert datetime.fromisoformat(row["local"]) == time


def test_a_json_file_has_every_text_and_microsecond(spark: Any, tmp_path: Path, zone: str) -> None:
    [file] = written(spark, tmp_path, "json")
    check([json.loads(line) for line in file.read_text().splitlines()])


def test_a_csv_file_has_every_text_and_microsecond(spark: Any, tmp_path: Path, zone: str) -> None:
    [file] = written(spark, tmp_path, "csv")
    with file.open(newline="") as opened:
        check(list(csv.DictReader(opened)))
