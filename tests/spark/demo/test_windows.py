"""The oracle's late rule is Spark's own: the same batches through Spark give the same windows, bit for bit."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.demo.windows import Event, recompute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR = 3_600_000
BASE = 1_356_998_400_000  # 2013-01-01
STATEMENT = """
    SELECT unix_millis(window.start) AS start, g, count(*) AS rows, count(v) AS departed,
           count_if(v > 15) AS late, sum(v) AS total, max(v) AS worst
    FROM events GROUP BY window(ts, '1 hour'), g
"""


def batch(dice: random.Random, number: int) -> list[Event]:
    """Two hundred events around hour 4n, some of them hours behind."""
    return [
        Event(
            BASE + round((4 * number + 4 * dice.random() - dice.choice([0, 0, 0, 0, 3, 9, 20])) * HOUR),
            dice.choice("AB"),
            dice.choice([None, 1.0, 2.0, 40.0]),
        )
        for _ in range(200)
    ]


def test_the_recomputation_equals_spark_also_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(5)
    files = [batch(dice, number) for number in range(6)]
    incoming, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    incoming.mkdir()
    written: dict[Any, Any] = {}

    def keep(frame: DataFrame, number: int) -> None:
        for row in frame.collect():
            key = (row["start"], row["g"])
            assert key not in written, f"{key} is written twice"
            written[key] = (row["rows"], row["departed"], row["late"], row["total"], row["worst"])

    def start() -> Any:
        read = spark.readStream.schema("t BIGINT, g STRING, v DOUBLE").option("maxFilesPerTrigger", 1)
        shaped = read.json(str(incoming)).selectExpr("timestamp_millis(t) AS ts", "g", "v")
        shaped.withWatermark("ts", "2 hours").createOrReplaceTempView("events")
        query = spark.sql(STATEMENT).writeStream.outputMode("append").foreachBatch(keep)
        return query.option("checkpointLocation", str(checkpoint)).start()

    query = start()
    try:
        for number, events in enumerate(files):
            text = "".join(json.dumps({"t": e.time_ms, "g": e.group, "v": e.value}) + "\n" for e in events)
            (tmp_path / "half").write_text(text)
            os.utime(tmp_path / "half", (number + 1, number + 1))  # the source takes files in the order of these
            (tmp_path / "half").rename(incoming / f"{number:03}.json")
            if dice.random() < 0.6:  # else two files wait: no batch without data runs between them
                query.processAllAvailable()
            if number == 3:
                query.processAllAvailable()
                query.stop()
                query = start()
        query.processAllAvailable()
    finally:
        query.stop()
    expected = recompute(_batches(checkpoint, files), width_ms=HOUR, delay_ms=2 * HOUR)
    assert expected.late_dropped > 50
    assert {key: each.figures for key, each in expected.windows.items()} == written


def _batches(checkpoint: Path, files: list[list[Event]]) -> list[list[Event]]:
    """The rows of each batch Spark ran, the ones without data too, from its offset log."""
    ends = [
        json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[2])["logOffset"]
        for number in range(sum(each.name.isdigit() for each in (checkpoint / "offsets").iterdir()))
    ]
    assert len(set(ends)) < len(ends), "no batch without data ran: this proves less than it should"
    starts = [-1, *ends]
    return [
        [event for number in range(start + 1, end + 1) for event in files[number]]
        for start, end in zip(starts, ends, strict=False)
    ]
