"""Data sources by their name, on those that every Spark has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.errors import SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

TICKS = {"format": {"name": "rate-micro-batch", "options": {"rowsPerBatch": "5", "numPartitions": "1"}}}


def spec(lab: Any, sink: dict[str, Any], **more: Any) -> dict[str, Any]:
    document = lab.spec("none", source=TICKS, sink=sink, **more)
    document.pop("decode")
    return document


def test_a_source_by_its_name_lands_where_the_sink_keeps_the_position(lab: Any) -> None:
    """Also when the driver dies in its first batch, of which nobody wrote down where it begins."""
    document = spec(lab, {"iceberg": {"table": f"{lab.namespace}.t"}}, rules={"not_three": "value <> 3"})

    def die() -> None:
        raise RuntimeError("died")

    with failpoints.on("before-return", die):
        lab.fail(document)
    lab.started.clear()
    lab.run(document, 10)
    landed = sorted(row["value"] for row in lab.rows())
    assert landed == [value for value in range(len(landed) + 1) if value != 3]
    assert {"_ingested_at", "timestamp", "value"} == set(lab.rows()[0])


def test_state_over_it_and_a_sink_by_its_name(lab: Any) -> None:
    out = Path(lab.folder) / "out"
    sql = "SELECT window.start AS at, count(*) AS c FROM source GROUP BY window(timestamp, '1 second')"
    document = spec(
        lab, {"format": {"name": "orc", "options": {"path": str(out)}}},
        watermark={"column": "timestamp", "delay": "0s"},
        transform={"sql": sql},
        spark={"spark.sql.shuffle.partitions": 1},
    )  # fmt: skip
    document["source"] = {"format": {**TICKS["format"], "options": {"rowsPerBatch": "5", "startTimestamp": "1000"}}}
    running = lab.start(document)
    lab.until("two windows", lambda: sum(done.outcome.landed for done in lab.done) >= 2)
    assert running.stop(60)
    assert {row["c"] for row in lab.spark.read.orc(str(out)).collect()} == {5}


@pytest.mark.parametrize("where", ["source", "sink"])
def test_a_format_whose_jar_is_absent_is_refused_by_name(lab: Any, where: str) -> None:
    absent = {"format": {"name": "hudi", "options": {"path": "/x"}}}
    document = spec(lab, absent if where == "sink" else {"console": {}})
    if where == "source":
        document["source"] = absent
    with pytest.raises(SpecError, match="There is no data source hudi on the class path") as caught:
        lab.starter().start(lab.wanted(document))
    assert "hudi-spark4.1-bundle_2.13" in caught.value.why
