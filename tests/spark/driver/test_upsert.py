"""Batches that change rows: upsert by key and complete, each exactly once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.platform.errors import Blocked, SpecError

EVENTS = "id INT, v STRING, at INT, op STRING"


def upsert(lab: Any, topic: str, **sink: Any) -> dict[str, Any]:
    """A stream of changes; what it keeps of each key is the newest."""
    table = {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["id"], **sink}
    sql = "SELECT id, v, at, op, _kafka_offset FROM source"
    return lab.spec(topic, decode={"json": EVENTS}, transform={"sql": sql}, sink={"iceberg": table})


def event(id: int | None, v: str, at: int | None, op: str = "u") -> dict[str, Any]:
    return {"id": id, "v": v, "at": at, "op": op}


def held(lab: Any) -> dict[Any, Any]:
    return {row["id"]: row["v"] for row in lab.rows(columns="id, v")}


def test_the_newest_row_of_each_key_stays_within_a_batch_and_across_batches(lab: Any) -> None:
    topic = lab.topic()
    spec = upsert(lab, topic, order_by="at", delete_when="op = 'd'", write="merge-on-read")
    lab.produce(topic, [event(1, "a", 1), event(1, "b", 3), event(1, "old", 2), event(2, "x", 1), event(None, "n", 1)])
    lab.start(spec)
    lab.until("the first batch", lambda: lab.done)
    assert held(lab) == {1: "b", 2: "x", None: "n"}
    lab.land(
        topic, event(1, "late", 2), event(2, "y", 5), event(2, "gone", 6, "d"), event(3, "z", 1, "d"),
        event(None, "m", 2),
    )  # fmt: skip
    assert held(lab) == {1: "b", None: "m"}
    assert len(lab.rows()) == 2
    last = lab.done[-1]
    assert (last.outcome.seq, last.outcome.filtered) == (2, None)
    shown = lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t").collect()
    properties = {row["key"]: row["value"] for row in shown}
    totals = json.loads(properties[f"lakeward.stream.{spec['id']}.position"])["totals"]
    assert (totals["consumed"], totals["filtered"]) == (10, 0), "every record counts, not the newest of each key"
    lab.land(topic, event(1, "late", 1), event(2, "never there", 1, "d"), event(1, "late", 2, "d"))
    assert held(lab) == {1: "b", None: "m"}
    assert [each.outcome.seq for each in lab.done] == [1, 2, 3], "a batch that changes nothing moves the position too"


@pytest.mark.campaign(held_by="test_the_newest_row_of_each_key_stays_within_a_batch_and_across_batches")
def test_without_order_by_the_later_record_wins(lab: Any) -> None:
    topic = lab.topic()
    spec = upsert(lab, topic, write="copy-on-write")
    lab.produce(topic, [event(1, "a", 1), event(1, "b", 1)])
    lab.start(spec)
    lab.until("the first batch", lambda: lab.done)
    assert held(lab) == {1: "b"}
    lab.land(topic, event(1, "c", 0))
    assert held(lab) == {1: "c"}
    lab.land(topic, b"junk")
    assert held(lab) == {1: "c"}
    assert [each.outcome.seq for each in lab.done] == [1, 2, 3], "a batch without any row moves the position too"
    [properties] = lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t ('write.merge.mode')").collect()
    assert properties["value"] == "copy-on-write"


def test_two_rows_of_a_key_of_which_nobody_knows_the_newer_stop_the_stream(lab: Any) -> None:
    topic = lab.topic()
    spec = upsert(lab, topic) | {"transform": {"sql": "SELECT id, v FROM source"}}
    lab.produce(topic, [event(7, "a", 1), event(7, "b", 2)])
    error = lab.fail(spec)
    assert isinstance(error, SpecError)
    assert "key id=7 has 2 rows" in str(error)
    assert "order_by" in str(error)


def test_keys_that_are_no_columns_are_refused_before_anything_runs(lab: Any) -> None:
    with pytest.raises(SpecError, match="not a column of the transform: nope"):
        lab.start(upsert(lab, lab.topic(), keys=["nope"]))
    assert not lab.spark.catalog.tableExists(f"lake.{lab.namespace}.t")


@pytest.mark.campaign(held_by="test_the_newest_row_of_each_key_stays_within_a_batch_and_across_batches")
@pytest.mark.parametrize("how", ["merge-on-read", "copy-on-write"])
def test_a_batch_without_any_row_moves_the_position_all_the_same(lab: Any, how: str) -> None:
    topic = lab.topic()
    spec = upsert(lab, topic, write=how)
    lab.produce(topic, [event(1, "a", 1)])
    lab.run(spec, 1)
    lab.produce(topic, [b"junk"])
    lab.run(spec, 1)
    assert held(lab) == {1: "a"}
    assert [each.outcome.seq for each in lab.done] == [1, 2]
    [properties] = lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t ('write.merge.mode')").collect()
    assert properties["value"] == how


@pytest.mark.campaign(held_by="test_the_newest_row_of_each_key_stays_within_a_batch_and_across_batches")
@pytest.mark.parametrize("how", ["merge-on-read", "copy-on-write"])
def test_a_batch_that_changes_nothing_moves_the_position_all_the_same(lab: Any, how: str) -> None:
    topic = lab.topic()
    spec = upsert(lab, topic, order_by="at", delete_when="op = 'd'", write=how)
    lab.produce(topic, [event(1, "a", 5)])
    lab.run(spec, 1)
    lab.produce(topic, [event(1, "late", 2), event(2, "never there", 1, "d"), event(1, "late", 3, "d")])
    lab.run(spec, 3)
    assert held(lab) == {1: "a"}
    assert [each.outcome.seq for each in lab.done] == [1, 2]


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_state_evolution.py::"
    "test_state_goes_on_where_deploy_says_it_fits_and_blocks_with_words_where_it_does_not"
)
def test_groups_that_change_are_upserted_by_their_grouping_keys(lab: Any) -> None:
    topic = lab.topic()
    table = {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["s"]}
    spec = lab.spec(topic, transform={"sql": "SELECT s, sum(n) AS n FROM source GROUP BY s"}, sink={"iceberg": table})
    lab.produce(topic, [{"n": n, "s": "odd" if n % 2 else "even"} for n in range(10)])
    lab.run(spec, 10)
    lab.produce(topic, [{"n": 100, "s": "odd"}])
    lab.run(spec, 1)
    assert {row["s"]: row["n"] for row in lab.rows()} == {"odd": 125, "even": 20}


def test_complete_replaces_the_whole_result(lab: Any) -> None:
    topic = lab.topic()
    table = {"table": f"{lab.namespace}.t", "mode": "complete"}
    spec = lab.spec(topic, transform={"sql": "SELECT s, count(*) AS c FROM source GROUP BY s"}, sink={"iceberg": table})
    lab.produce(topic, [{"n": 1, "s": "a"}, {"n": 2, "s": "a"}, {"n": 3, "s": "b"}])
    lab.start(spec)
    lab.until("the first batch", lambda: lab.done)
    lab.land(topic, {"n": 4, "s": "b"}, {"n": 5, "s": "c"})
    assert {row["s"]: row["c"] for row in lab.rows()} == {"a": 2, "b": 2, "c": 1}
    assert lab.done[-1].outcome.seq == 2


def test_another_mode_on_the_same_table_is_refused_before_anything_runs(lab: Any) -> None:
    topic = lab.topic()
    spec = upsert(lab, topic)
    lab.produce(topic, [event(1, "a", 1)])
    lab.run(spec | {"sink": {"iceberg": {"table": f"{lab.namespace}.t"}}}, 1)
    with pytest.raises(Blocked, match="up to seq 1 it landed with mode append, the sink now has mode upsert"):
        lab.start(spec)
    lab.produce(topic, [event(1, "b", 2)])
    lab.run(spec | {"sink": {"iceberg": {"table": f"{lab.namespace}.t"}}}, 1)
    assert sorted(row["v"] for row in lab.rows(columns="v")) == ["a", "b"]
