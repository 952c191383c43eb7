"""The state of a stream is read from its checkpoint while it runs, and nothing of it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.engine.checkpoint import files as checkpoint
from lakeward.engine.checkpoint import state_store
from lakeward.platform.failures import FailureClass, judge

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

LAST = """\
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

def run(source):
    return source.groupBy("s").transformWithState(
        Last(), "s STRING, n INT", outputMode="Append", timeMode="ProcessingTime"
    )

class Last(StatefulProcessor):
    def init(self, handle):
        self.last = handle.getValueState("last", "n INT, seen BIGINT", 3_600_000)
        self.all = handle.getListState("all", "n INT")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.last.update((row.n, 1))
            self.all.appendValue((row.n,))
            yield Row(s=key[0], n=row.n)

    def close(self):
        pass
"""


def files(folder: str) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in Path(folder).rglob("*") if each.is_file()}


def test_state_on_the_heap_goes_on_after_a_restart_and_is_shown_too(lab: Any) -> None:
    topic = lab.topic()
    document = lab.spec(
        topic, deduplicate={"keys": ["n"], "within_watermark": False}, lineage="rows", state={"provider": "hdfs"}
    )
    lab.produce(topic, [{"n": 1}, {"n": 2}, {"n": 1}])
    lab.run(document, 3)
    lab.produce(topic, [{"n": 2}, {"n": 3}])
    lab.run(document, 2)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]
    folder = lab.wanted(document).checkpoint
    assert list(Path(folder).rglob("*.delta"))
    before = files(folder)
    [store] = state_store.read(lab.spark.newSession(), folder, 10)
    assert files(folder) == before
    assert (store.variable, dict(store.keys), sorted(each["key"]["n"] for each in store.sample)) == (
        None, {"n": "int"}, [1, 2, 3],
    )  # fmt: skip
    assert state_store.provider(checkpoint.read(checkpoint.files_of(lab.spark, folder), folder).conf) == "hdfs"


def test_variables_of_python_are_shown_and_nothing_is_written(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": n, "s": "ab"[n % 2]} for n in range(4)])
    document = lab.spec(topic, transform={"python": "last:run", "code": {"last.py": LAST}}, lineage="none")
    lab.run(document, 4)
    assert sorted((row["s"], row["n"]) for row in lab.rows()) == [("a", 0), ("a", 2), ("b", 1), ("b", 3)]
    folder = lab.wanted(document).checkpoint
    before = files(folder)
    stores = {each.variable: each for each in state_store.read(lab.spark.newSession(), folder, 10)}
    assert files(folder) == before
    last, every = stores["last"], stores["all"]
    assert (last.kind, last.ttl, last.partitions, last.problem) == ("value", True, 2, None)
    assert (dict(last.keys), dict(last.values)["value"]) == ({"s": "string"}, "struct<n:int,seen:bigint>")
    assert sorted(each["key"]["s"] for each in last.sample) == ["a", "b"]
    assert (every.kind, every.ttl, len(every.sample), dict(every.values)) == (
        "list", False, 4, {"list_element": "struct<n:int>"},
    )  # fmt: skip
    conf = checkpoint.read(checkpoint.files_of(lab.spark, folder), folder).conf
    assert state_store.provider(conf) == "rocksdb"

    # A variable of another type is refused, and what it held is still there.
    other = LAST.replace("n INT, seen BIGINT", "n STRING, seen BIGINT")
    lab.produce(topic, [{"n": 12, "s": "c"}])
    failure = lab.fail({**document, "transform": {"python": "last:run", "code": {"last.py": other}}})
    text = lab.started[-1].failure()[1]
    assert judge(error=failure, text=text).failure_class is FailureClass.CONFIG
    again = {each.variable: each for each in state_store.read(lab.spark.newSession(), folder, 10)}
    assert sorted(each["key"]["s"] for each in again["last"].sample) == ["a", "b"]


@pytest.mark.campaign(held_by="test_variables_of_python_are_shown_and_nothing_is_written")
def test_variables_of_python_are_read_while_it_runs_and_one_more_is_taken_up(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": n, "s": "ab"[n % 2]} for n in range(4)])
    document = lab.spec(topic, transform={"python": "last:run", "code": {"last.py": LAST}}, lineage="none")
    lab.run(document, 4)
    folder = lab.wanted(document).checkpoint
    last = {each.variable: each for each in state_store.read(lab.spark.newSession(), folder, 10)}["last"]

    running = lab.start(document)  # it goes on, and is read while it does
    lab.produce(topic, [{"n": 9, "s": "c"}])
    lab.until("the fifth", lambda: sum(each.consumed for each in lab.done) >= 5)
    again = {each.variable: each for each in state_store.read(lab.spark.newSession(), folder, 10)}
    lab.produce(topic, [{"n": 10, "s": "c"}])
    lab.until("the sixth", lambda: sum(each.consumed for each in lab.done) >= 6)
    assert running.stop(60)
    assert again["last"].to_batch >= last.to_batch
    assert sorted(row["n"] for row in lab.rows()) == [0, 1, 2, 3, 9, 10]

    # A variable more is taken up; one of another type is refused then too.
    more = LAST.replace("self.all =", "self.new = handle.getValueState('new', 'n INT')\n        self.all =")
    lab.produce(topic, [{"n": 11, "s": "c"}])
    lab.run({**document, "transform": {"python": "last:run", "code": {"last.py": more}}}, 1)
    other = more.replace("n INT, seen BIGINT", "n STRING, seen BIGINT")
    lab.produce(topic, [{"n": 12, "s": "c"}])
    failure = lab.fail({**document, "transform": {"python": "last:run", "code": {"last.py": other}}})
    text = lab.started[-1].failure()[1]
    assert judge(error=failure, text=text).failure_class is FailureClass.CONFIG


def test_a_stream_without_state_has_no_stores(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}])
    document = lab.spec(topic)
    lab.run(document, 1)
    assert state_store.read(lab.spark.newSession(), lab.wanted(document).checkpoint, 1) == []
