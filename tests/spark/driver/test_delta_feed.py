"""A Delta table read as a stream, and every way in which its log can end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.delta import place
from lakeward.errors import Blocked, DependencyDown
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

NOW = {"available_now": True, "schedule": "0 * * * *"}


def folder(lab: Any) -> Path:
    return place.folder_of(lab.runtime.lake, f"{lab.namespace}.up")


def add(lab: Any, *numbers: int) -> None:
    rows = lab.spark.createDataFrame([(n, f"row {n}") for n in numbers], "n INT, s STRING").coalesce(1)
    rows.write.format("delta").mode("append").save(str(folder(lab)))


def spec(lab: Any, **more: Any) -> dict[str, Any]:
    feed = {"table": f"{lab.namespace}.up", "max_files_per_trigger": 2, **more.pop("feed", {})}
    document = lab.spec("none", trigger=NOW, **more)
    document.pop("decode")
    return document | {"source": {"delta": feed}}


def run(lab: Any, document: dict[str, Any]) -> None:
    running = lab.start(document)
    lab.until("the end", lambda: not running.active)
    assert running.completed


def landed(lab: Any, table: str = "t") -> list[int]:
    return sorted(row["n"] for row in lab.rows(table))


def refused(lab: Any, document: dict[str, Any]) -> Blocked:
    with pytest.raises(Blocked) as caught:
        lab.starter().start(lab.wanted(document))
    return caught.value


def test_a_table_lands_as_it_stands_and_then_its_appends_once(lab: Any) -> None:
    document = spec(lab)
    with pytest.raises(DependencyDown, match=r"There is no table .*up for source source"):
        lab.starter().start(lab.wanted(document))
    for number in range(3):
        add(lab, number)

    def die() -> None:
        raise RuntimeError("died")

    for step in ("before-return", "after-publish"):
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    run(lab, document)
    assert landed(lab) == [0, 1, 2]
    lab.spark.sql(f"OPTIMIZE {place.by_path(folder(lab))}")
    add(lab, 3)
    run(lab, document)
    run(lab, document)
    assert landed(lab) == [0, 1, 2, 3], "compaction adds nothing"
    assert lab.rows()[0].keys() == {"n", "s", "_ingested_at"}

    later = spec(
        lab, id=f"l_{lab.namespace}", feed={"starting_version": 4, "max_bytes_per_trigger": "1MB"},
        transform={"sql": "SELECT s, count(*) AS n FROM source GROUP BY s"},
        sink={"iceberg": {"table": f"{lab.namespace}.t2", "mode": "upsert", "keys": ["s"], "order_by": "n"}},
        spark={"spark.sql.shuffle.partitions": 1},
    )  # fmt: skip
    run(lab, later)
    assert [row.asDict() for row in lab.spark.table(f"lake.{lab.namespace}.t2").collect()] == [{"s": "row 3", "n": 1}]


def test_what_a_stream_of_a_delta_table_cannot_see_blocks_it_by_name(lab: Any) -> None:
    document = spec(lab)
    add(lab, 1)
    run(lab, document)
    add(lab, 2)
    lab.spark.sql(f"DELETE FROM {place.by_path(folder(lab))} WHERE n = 2")
    error = refused(lab, document)
    assert error.reason == "source-rewritten"
    assert "version 2 of" in error.why
    assert "(DELETE) takes files away" in error.why
    skipping = spec(lab, feed={"skip_changes": True})
    run(lab, skipping)
    assert landed(lab) == [1, 2]

    for number in (3, 4):
        add(lab, number)
    log = folder(lab) / "_delta_log"
    copy = shutil.copytree(folder(lab), lab.folder / "copy")
    (log / f"{3:020d}.json").unlink()
    error = refused(lab, skipping)
    assert (error.reason, "took versions 3 to 3" in error.why) == ("source-expired", True)
    shutil.copy(copy / "_delta_log" / f"{3:020d}.json", log)
    run(lab, skipping)
    assert landed(lab) == [1, 2, 3, 4]

    for file in log.glob(f"*{4:020d}*"):
        file.unlink()
    assert refused(lab, skipping).reason == "source-rolled-back"
    shutil.rmtree(folder(lab))
    assert refused(lab, skipping).reason == "source-missing"
    add(lab, 9)
    error = refused(lab, skipping)
    assert (error.reason, "was deleted and created again" in error.what) == ("source-replaced", True)
