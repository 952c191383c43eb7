"""Files landed as if they were records of a stream's source."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import of_properties
from lakeward.connectors.files import listing
from lakeward.engine.assignment import Assignment
from lakeward.operations.backfill import range
from lakeward.operations.backfill.backfill import Report, backfill_files
from lakeward.platform.errors import Refused, SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


class Died(RuntimeError):
    pass


def _die() -> None:
    raise Died


def _run(lab: Any, document: dict[str, Any], pattern: str, into: str | None, **more: Any) -> Report:
    wanted = Assignment(document["id"], 1, document, "")
    span = range.of_files(wanted.spec, lab.runtime, listing.list_files(pattern), **more)
    return backfill_files(lab.spark, wanted, lab.runtime, span, into=into)


def _lines(folder: Path, name: str, at: int, *records: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in records))
    os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))
    return path


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_backfill.py::test_a_range_lands_in_a_new_table_once_whatever_dies"
)
@pytest.mark.parametrize("steps", [("after-quarantine", "after-publish")], ids=["each step"])
def test_archived_records_land_once_whatever_dies(
    lab: Any, catalog: Any, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    folder, into = tmp_path / "archive", f"{lab.namespace}.history"
    _lines(folder, "1.json", 1, {"n": 1}, "junk", "", {"n": -1})
    _lines(folder, "2.json", 2, {"n": 2}, {"n": -1})
    _lines(folder, "3.json", 3, {"n": 3})
    document = lab.spec("never-read", rules={"positive": "n > 0"}, lineage="rows")

    for step in steps:
        with failpoints.on(step, _die), pytest.raises(Died):
            _run(lab, document, str(folder), into, most=1)
    late = _lines(folder, "4.json", 4, {"n": 4})
    done = _run(lab, document, str(folder), into, most=1)
    assert done.done and done.begun is not None and done.batches == 3

    rows = lab.rows("history")
    assert sorted(row["n"] for row in rows) == [1, 2, 3, 4]
    assert {row["_kafka_offset"] for row in rows} == {None}, "no offset is made up"
    aside = lab.spark.sql(
        f"SELECT * FROM lake.{lab.namespace}.q WHERE stream = '{done.position} into {into}'"
    ).collect()
    assert sorted((row["reason"], row["_file_path"].rsplit("/", 1)[-1]) for row in aside) == [
        ("decode", "1.json"), ("positive", "1.json"), ("positive", "2.json"),
    ]  # fmt: skip
    totals = of_properties(catalog.load_table(into).properties, into)[done.position].totals
    assert totals.model_dump(exclude={"skipped"}) == {"consumed": 7, "landed": 4, "quarantined": 3, "filtered": 0}

    assert _run(lab, document, str(folder), into, most=1).batches == 0
    os.utime(late)
    with pytest.raises(Refused, match="landed files changed"):
        _run(lab, document, str(folder), into)


def test_files_are_not_landed_when_they_changed(lab: Any, tmp_path: Path) -> None:
    folder, into = tmp_path / "archive", f"{lab.namespace}.history"
    path = _lines(folder, "1.json", 1, {"n": 1})
    _lines(folder, "2.json", 2, {"n": 2})
    document = lab.spec("never-read")
    with failpoints.on("after-stage", lambda: path.write_text('{"n": 7}\n')), pytest.raises(Refused, match=r"1\.json"):
        _run(lab, document, str(folder), into, most=1)
    assert lab.rows("history") == []
    with failpoints.on("after-publish", _die), pytest.raises(Died):
        _run(lab, document, str(folder), into, most=1)
    _lines(folder, "2.json", 3, {"n": 3})
    with pytest.raises(Refused, match="landed files changed"):
        _run(lab, document, str(folder), into)
    with pytest.raises(Refused, match="its sink only appends"):
        _run(lab, document, str(folder), None)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_backfill.py::test_a_range_lands_in_a_new_table_once_whatever_dies"
)
def test_records_kept_with_their_offsets_keep_them_and_repair_by_key(lab: Any, tmp_path: Path) -> None:
    topic, folder = lab.topic(), tmp_path / "archive"
    sink = {"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["n"], "order_by": "_kafka_offset"}}
    document = lab.spec(topic, sink=sink, lineage="none")
    lab.produce(topic, [{"n": 1, "s": "old"}, {"n": 2, "s": "lost"}, {"n": 1, "s": "new"}])
    lab.run(document, 3)
    kept = lab.spark.read.format("kafka").option("kafka.bootstrap.servers", lab.kafka.bootstrap)
    kept.option("subscribe", topic).load().coalesce(1).write.parquet(str(folder))
    lab.spark.sql(f"DELETE FROM lake.{lab.namespace}.t WHERE n = 2")

    done = _run(lab, document, f"{folder}/*.parquet", None)
    assert (done.consumed, done.landed) == (3, 2)
    assert {row["n"]: (row["s"], row["_kafka_topic"], row["_kafka_offset"]) for row in lab.rows()} == {
        1: ("new", topic, 2), 2: ("lost", topic, 1),
    }  # fmt: skip
    lab.spark.range(1).write.parquet(str(tmp_path / "other"))
    with pytest.raises(SpecError, match="no column value; its columns: id"):
        _run(lab, document, f"{tmp_path}/other/*.parquet", None)
    with pytest.raises(SpecError, match="cannot read files of format csv"):
        _run(lab, document, f"{folder}/*.parquet", None, kind="csv")


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_backfill.py::test_a_range_lands_in_a_new_table_once_whatever_dies"
)
def test_files_of_a_source_of_files_land_by_its_columns(lab: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    _lines(folder, "1.csv", 1, "n,s", "1,a", "x,b")
    _lines(tmp_path / "old", "0.csv", 0, "n,s", "0,z")
    files = {"path": str(folder), "format": "csv", "columns": "n INT, s STRING", "max_files_per_trigger": 1}
    document = lab.spec("", source={"files": files}, decode=None)
    done = _run(lab, document, str(tmp_path / "old"), f"{lab.namespace}.history")
    assert [(row["n"], row["_file_path"].rsplit("/", 1)[-1]) for row in lab.rows("history")] == [(0, "0.csv")]
    assert done.consumed == 1
    _lines(tmp_path / "wrong", "2.csv", 2, "n,t", "0,z")
    with pytest.raises(Exception, match="its header is n, t; declared are n, s"):
        _run(lab, document, str(tmp_path / "wrong"), f"{lab.namespace}.other")
