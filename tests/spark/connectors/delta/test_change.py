"""Batches that change rows of a Delta table, against what a dictionary would hold."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import seeds
from seeds import seed

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.delta import location, table
from lakeward.connectors.delta.change import Change, Replace, Upsert
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "k STRING, part STRING, at INT, v STRING"
UPSERT = Upsert(["k", "part"], "at", "v = 'gone'")
Row = tuple[str | None, str, int | None, str]


@dataclass
class Planned(DeltaWriter):
    """Batch n goes from n to n + 1."""

    def running(self, batch_id: int) -> RunningBatch:
        return RunningBatch("q", batch_id, {"source": str(batch_id)}, {"source": str(batch_id + 1)})


@dataclass
class Changed:
    """One table, partitioned by `part`."""

    spark: SparkSession
    lake: Lake
    table: str

    def land(self, batch: int, rows: list[Row], change: Change = UPSERT) -> BatchResult:
        folder = location.folder_of(self.lake, self.table)
        writer = Planned(self.spark, "s", self.table, "none", stateful=False, folder=folder, change=change)
        return writer.land(self.spark.createDataFrame(rows, SCHEMA), batch)

    def rows(self) -> list[Row]:
        found = self.spark.table(f"spark_catalog.{self.table}").select("k", "part", "at", "v").collect()
        return sorted((tuple(row) for row in found), key=repr)


@pytest.fixture
def changed(spark: SparkSession, lake: Lake) -> Changed:
    made = Changed(spark, lake, f"ns_{uuid4().hex[:8]}.t")
    table.create(spark, lake, made.table, spark.createDataFrame([], SCHEMA).schema, ["part"])
    return made


@pytest.mark.seeded
def test_upserts_leave_what_a_dictionary_would_hold(changed: Changed) -> None:
    chance = random.Random(seed(14))
    held: dict[Any, Row] = {}
    for batch in range(5 if os.environ.get(seeds.VARIABLE) else 3):
        # In one batch each (key, part) has distinct times: which of two equal ones wins is nobody's promise.
        times = chance.sample(range(100), 12)
        rows: list[Row] = [
            (
                chance.choice([None, "a", "b", "c"]),
                chance.choice(["x y", "z%2F"]),
                at,
                chance.choice(["1", "2", "gone"]),
            )
            for at in times
        ]
        changed.land(batch, rows)
        newest: dict[Any, Row] = {}
        for row in rows:
            if row[:2] not in newest or (row[2] or 0) > (newest[row[:2]][2] or 0):
                newest[row[:2]] = row
        for key, row in newest.items():
            if key in held and (row[2] or 0) < (held[key][2] or 0):
                continue
            held.pop(key, None)
            if row[3] != "gone":
                held[key] = row
        assert changed.rows() == sorted(held.values(), key=repr)


@pytest.mark.campaign(held_by="test_upserts_leave_what_a_dictionary_would_hold")
def test_a_replay_changes_nothing_and_untouched_files_stay(changed: Changed) -> None:
    from lakeward.connectors.delta import log

    changed.land(0, [("a", "x", 1, "1"), ("b", "y", 1, "1")])
    folder = location.folder_of(changed.lake, changed.table)
    before = log.read(folder)
    landed = changed.land(1, [("a", "x", 2, "2"), ("c", "x", None, "new")])
    after = log.read(folder)
    assert before is not None
    assert after is not None
    assert {path for path in before.files if path.startswith("part=y")} <= set(after.files)
    assert not {path for path in before.files if path.startswith("part=x")} & set(after.files)
    assert (landed.counts.landed, landed.position.mode if landed.position else "") == (2, "upsert")

    assert changed.land(1, [("a", "x", 2, "2"), ("c", "x", None, "new")]).already
    assert changed.rows() == [("a", "x", 2, "2"), ("b", "y", 1, "1"), ("c", "x", None, "new")]


def test_rows_of_one_key_that_nothing_orders_are_refused(changed: Changed) -> None:
    with pytest.raises(SpecError, match="several rows of one key"):
        changed.land(0, [("a", "x", 1, "1"), ("a", "x", 2, "2")], Upsert(["k"]))
    changed.land(0, [], Upsert(["k"]))
    assert changed.rows() == []


def test_a_change_is_written_again_when_the_table_moved_under_it(changed: Changed) -> None:
    """Another writer brings the same key between staging and commit: published as it was, the key would be doubled."""
    folder = location.folder_of(changed.lake, changed.table)
    changed.land(0, [("a", "x", 1, "1")])
    foreign = [1]

    def meanwhile() -> None:
        if foreign:
            foreign.pop()
            changed.spark.sql(f"INSERT INTO delta.`{folder}` VALUES ('b', 'x', 1, 'foreign')").collect()

    with failpoints.on("after-stage", meanwhile):
        changed.land(1, [("b", "x", 2, "ours")])

    assert changed.rows() == [("a", "x", 1, "1"), ("b", "x", 2, "ours")]


def test_complete_replaces_all_rows(changed: Changed) -> None:
    changed.land(0, [("a", "x", 1, "1"), ("b", "y", 1, "1")], Replace())
    landed = changed.land(1, [("c", "x", 2, "2")], Replace())
    assert changed.rows() == [("c", "x", 2, "2")]
    assert (landed.counts.landed, landed.position.mode if landed.position else "") == (1, "complete")
