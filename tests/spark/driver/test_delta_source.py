"""A Delta table read as a stream, and every way in which its log can end."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from moved_rig import Registry, accepted, deployed

from lakeward.connectors.delta import location
from lakeward.operations import preview
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Blocked, DependencyDown
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.report.sources import measure
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

NOW = {"available_now": True, "schedule": "0 * * * *"}


def folder(lab: Any) -> Path:
    return location.folder_of(lab.runtime.lake, f"{lab.namespace}.up")


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


@pytest.mark.parametrize(
    "steps",
    [
        ("before-return",),
        pytest.param(
            ("before-return", "after-publish"),
            marks=pytest.mark.campaign(held_by="test_a_table_lands_as_it_is_and_then_its_appends_once"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_a_table_lands_as_it_is_and_then_its_appends_once(lab: Any, steps: tuple[str, ...]) -> None:
    document = spec(lab)
    with pytest.raises(DependencyDown, match=r"Source source .* cannot be read: table .*up does not exist yet"):
        lab.starter().start(lab.wanted(document))
    for number in range(3):
        add(lab, number)

    def die() -> None:
        raise RuntimeError("died")

    for step in steps:
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    run(lab, document)
    assert landed(lab) == [0, 1, 2]
    lab.spark.sql(f"OPTIMIZE {location.by_path(folder(lab))}")
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


@pytest.mark.campaign(held_by="test_a_table_lands_as_it_is_and_then_its_appends_once")
def test_a_lost_checkpoint_goes_on_in_the_middle_of_the_table_and_what_waits_is_counted(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    rows = lab.spark.range(6).selectExpr("CAST(id AS INT) AS n", "'a' AS s").repartition(3)
    rows.write.format("delta").save(str(folder(lab)))
    document = spec(lab, feed={"max_files_per_trigger": 1})
    of_table = StreamSpec.model_validate(document)
    before, _ = measure(lab.runtime, of_table, {})
    running = lab.start(document | {"trigger": {"every": "1h"}})
    lab.until_rows(1)
    assert running.stop(60)
    first = len(lab.rows())
    assert 0 < first < 6
    behind, _ = measure(lab.runtime, of_table, lab.done[-1].outcome.batch.end)
    assert before is not None
    assert behind is not None
    assert (before.records, behind.records, behind.oldest_s is not None) == (6, 6 - first, True)

    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    lab.started.clear()
    assert "lakeward streams recover" in refused(lab, document).next
    deployed(registry, document, wanted.checkpoint)
    operator.run(Request(StreamOperation.RECOVER, document["id"], wait=False))
    again = replace(accepted(registry, document["id"], wanted), document=document)
    running = lab.starter().start(again)
    lab.started.append(running)
    lab.until("the end", lambda: not running.active)
    assert running.completed
    assert landed(lab) == list(range(6)), "the rest of the table, each row once"
    add(lab, 6)
    running = lab.starter().start(again)
    lab.started.append(running)
    lab.until("the end", lambda: not running.active)
    assert landed(lab) == list(range(7))
    at_end, _ = measure(lab.runtime, of_table, lab.done[-1].outcome.batch.end)
    assert at_end is not None
    assert (at_end.records, at_end.oldest_s) == (0, 0.0)

    found = preview.of(
        lab.spark.newSession(), of_table, lab.runtime, preview.newest_samples(of_table, lab.runtime, 1), 1
    )
    assert (found.read, [row["n"] for row in found.rows]) == (1, [6]), "the newest file"


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_iceberg_source.py::test_what_a_stream_of_a_table_cannot_see_blocks_it_by_name"
)
def test_what_a_stream_of_a_delta_table_cannot_see_blocks_it_by_name(lab: Any) -> None:
    document = spec(lab)
    add(lab, 1)
    run(lab, document)
    add(lab, 2)
    lab.spark.sql(f"DELETE FROM {location.by_path(folder(lab))} WHERE n = 2")
    error = refused(lab, document)
    assert error.reason == "source-rewritten"
    assert "version 2 of" in error.why
    assert "(DELETE) removes files" in error.why
    skipping = spec(lab, feed={"skip_changes": True})
    run(lab, skipping)
    assert landed(lab) == [1, 2]

    for number in (3, 4):
        add(lab, number)
    log = folder(lab) / "_delta_log"
    copy = shutil.copytree(folder(lab), lab.folder / "copy")
    (log / f"{3:020d}.json").unlink()
    error = refused(lab, skipping)
    assert (error.reason, "deleted versions 3 to 3" in error.why) == ("source-expired", True)
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
