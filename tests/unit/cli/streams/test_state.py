"""`streams state` as a document and as text; how the store is read: `tests/spark/driver/test_state_store.py`."""

from __future__ import annotations

import re
from pathlib import Path

from lakeward.cli.streams.state import document, text
from lakeward.engine.checkpoint.state_store import Store, frozen, provider

LAST = Store(0, "transformWithStateExec", "default", "last", "value", True, 2, 0, 4, {"s": "string"},
             {"value": "struct<n:int>"}, [{"key": {"s": "a"}, "value": {"value": {"n": 1}}}])  # fmt: skip
SIDE = Store(1, "symmetricHashJoin", "left-keyToNumValues", None, None, None, 2, 0, 4, {}, {}, [], "it is gone")
FROZEN = {"spark.sql.shuffle.partitions": "4"}


def test_the_document_is_the_one_that_is_written_down() -> None:
    data = document("a", "/c/a", [LAST, SIDE], "rocksdb", [{"numRowsTotal": 7, "memoryUsedBytes": 2048}], FROZEN)
    reference = (Path(__file__).parents[4] / "docs/reference/stream-json.md").read_text()
    [line] = [each for each in reference.splitlines() if each.startswith("| `streams state")]
    shape = line.split("|")[2].split("`")[1]
    assert set(re.findall(r"\w+", shape)) - {"type", "value"} == {*data, *data["stores"][0]}
    assert text(data).splitlines() == [
        "operator 0 transformWithStateExec, rocksdb, value last, with a time to live: batches 0 to 4, 2 parts",
        "  7 rows of the operator, 2.0 KB in memory",
        "  keys  s string",
        "  values  value struct<n:int>",
        '  {"key": {"s": "a"}, "value": {"value": {"n": 1}}}',
        "operator 1 symmetricHashJoin, rocksdb, left-keyToNumValues: batches 0 to 4, 2 parts",
        "  cannot be read: it is gone",
        "frozen in the checkpoint; another value in the spec takes effect after reset, or under a new id:",
        "  spark.sql.shuffle.partitions = 4",
    ]


def test_a_stream_without_state_says_so() -> None:
    data = document("a", "/c/a", [], None, [], {})
    assert (data["stateful"], data["stores"]) == (False, [])
    assert "a keeps no state" in text(data)


def test_the_provider_is_the_one_the_checkpoint_has_frozen() -> None:
    key = "spark.sql.streaming.stateStore.providerClass"
    assert provider({key: "x.y.HDFSBackedStateStoreProvider"}) == "hdfs"
    assert provider({}) is None
    assert frozen({key: "x", "spark.sql.streaming.checkpoint.x": "y", **FROZEN}) == {**FROZEN, key: "x"}
