"""What plain Spark does with a damaged checkpoint without a word, and what the driver says of the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.errors import Blocked
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


class Plain:
    """A query as anybody would write it: records in the order it saw them, its checkpoint, no guard."""

    def __init__(self, lab: Any, topics: list[str], **options: str) -> None:
        self.lab, self.topics, self.checkpoint = lab, topics, Path(lab.folder) / "plain"
        self.options = {"startingOffsets": "earliest", **options}
        self.seen: list[str] = []

    def start(self, fail: bool = False, into: str | None = None, **trigger: Any) -> Any:
        frames = [
            self.lab.spark.readStream.format("kafka")
            .options(**{"kafka.bootstrap.servers": self.lab.kafka.bootstrap, "subscribe": topic, **self.options})
            .load()
            for topic in self.topics
        ]
        whole = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        values = whole.selectExpr("CAST(value AS STRING) AS value")
        writer = values.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger)

        def land(frame: Any, batch: int) -> None:
            if fail:
                raise RuntimeError("died in the batch")
            self.seen += [row["value"] for row in frame.collect()]

        return writer.toTable(into) if into is not None else writer.foreachBatch(land).start()

    def run(self, into: str | None = None) -> str:
        """Read all there is; gives the query's id."""
        query = self.start(into=into, availableNow=True)
        assert query.awaitTermination(600)
        return str(query.id)


def refusal(lab: Any, document: dict[str, Any], **more: Any) -> Blocked:
    with pytest.raises(Blocked) as raised:
        lab.start(document, **more)
    assert raised.value.next, "a refusal says what to do"
    return raised.value


@pytest.mark.campaign(
    held_by="tests/unit/engine/checkpoint/test_preflight.py::test_metadata_deleted_would_be_a_new_query_without_a_word"
)
def test_without_metadata_spark_goes_on_as_another_query(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, ["a", "b"])
    plain = Plain(lab, [topic])
    first = plain.run()
    for name in ("metadata", ".metadata.crc"):
        (plain.checkpoint / name).unlink()
    lab.produce(topic, ["c"])
    assert plain.run() != first, "a new identity without a word: what dedupes by it (a sink) lands rows twice"
    assert plain.seen == ["a", "b", "c"]


@pytest.mark.campaign(held_by="tests/unit/engine/checkpoint/test_preflight.py::test_whole_checkpoint_deleted")
def test_without_a_checkpoint_spark_begins_again_and_leaves_a_gap(lab: Any) -> None:
    topic = lab.topic()
    plain = Plain(lab, [topic], startingOffsets="latest")
    plain.run()
    lab.produce(topic, ["a"])
    plain.run()
    lab.produce(topic, ["b"])
    shutil.rmtree(plain.checkpoint)
    plain.run()
    lab.produce(topic, ["c"])
    plain.run()
    assert plain.seen == ["a", "c"], "b is lost without a word"


@pytest.mark.campaign(held_by="test_state_frozen_options_and_a_change_of_shape")
@pytest.mark.parametrize("damage", ["older copy", "wiped"])
def test_an_older_copy_loses_what_the_table_takes_for_landed(lab: Any, damage: str) -> None:
    topic = lab.topic()
    table = f"lake.{lab.namespace}.plain"
    lab.spark.sql(f"CREATE TABLE {table} (value STRING) USING iceberg")
    lab.produce(topic, [{"n": 1}, {"n": 2}])
    plain = Plain(lab, [topic])
    plain.run(into=table)
    copy = Path(lab.folder) / "copy"
    shutil.copytree(plain.checkpoint, copy)
    document = lab.spec(topic)
    lab.run(document, 2)
    checkpoint = Path(lab.wanted(document).checkpoint)
    kept = Path(lab.folder) / "kept"
    shutil.copytree(checkpoint, kept)
    lab.produce(topic, [{"n": 3}])
    plain.run(into=table)
    lab.run(document, 1)
    for place, older in ((plain.checkpoint, copy), (checkpoint, kept)):
        if damage == "older copy":
            shutil.rmtree(place)
            shutil.copytree(older, place)
        else:
            shutil.rmtree(place / "offsets")
            shutil.rmtree(place / "commits")
    lab.produce(topic, [{"n": 4}, {"n": 5}])
    plain.run(into=table)
    found = [json.loads(row["value"])["n"] for row in lab.spark.table(table).collect()]
    assert sorted(found) == [1, 2, 3], "the epoch is there already: 4 and 5 are skipped, and the run reports success"

    error = refusal(lab, document)
    assert error.reason == "older-checkpoint"
    assert str(checkpoint) in error.why
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]


@pytest.mark.campaign(held_by="test_a_checkpoint_that_is_damaged_or_of_another_stream_is_refused_by_name")
def test_a_first_batch_whose_beginning_is_lost_is_empty_for_spark(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, ["a", "b"])
    plain = Plain(lab, [topic], startingOffsets=json.dumps({topic: {"0": 0}}))  # the latest, before a and b came
    query = plain.start(fail=True, processingTime="100 milliseconds")
    lab.until("its failure", lambda: not query.isActive)
    assert (plain.checkpoint / "offsets" / "0").exists()
    shutil.rmtree(plain.checkpoint / "sources")
    plain.options["startingOffsets"] = "latest"
    query = plain.start(processingTime="100 milliseconds")
    lab.until("batch 0", (plain.checkpoint / "commits" / "0").exists)
    lab.produce(topic, ["c"])
    lab.until("what comes next", lambda: plain.seen)
    query.stop()
    assert plain.seen == ["c"], "a and b were planned, and are lost without a word"


@pytest.mark.campaign(held_by="test_ours_refuses_sources_that_came_went_or_changed_places")
def test_sources_in_another_order_are_read_at_each_others_offsets(lab: Any) -> None:
    one, two = lab.topic(), lab.topic()
    lab.produce(one, ["a"])
    lab.produce(two, ["b"])
    plain = Plain(lab, [one, two], failOnDataLoss="false")
    plain.run()
    plain.topics.reverse()
    lab.produce(one, ["c"])
    plain.run()
    assert sorted(plain.seen) == ["a", "a", "b", "b", "c"], "everything again, without a word"


def test_ours_refuses_sources_that_came_went_or_changed_places(lab: Any) -> None:
    one, two, three = lab.topic(), lab.topic(), lab.topic()
    lab.produce(one, [{"n": 1}])
    lab.produce(two, [{"n": 2}])

    def of(topics: dict[str, str]) -> dict[str, Any]:
        document = lab.spec(one)
        del document["source"], document["decode"]
        document["sources"] = {
            name: {"kafka": {"topics": [topic], "max_offsets_per_trigger": 1000}, "decode": {"json": "n INT, s STRING"}}
            for name, topic in topics.items()
        }
        names = " UNION ALL ".join(f"SELECT * FROM {name}" for name in topics)
        return {**document, "transform": {"sql": names}}

    lab.run(of({"first": one, "second": two}), 2)
    for changed, words in (
        ({"second": two, "first": one}, "continue at the other's offsets"),
        ({"first": one}, "has offsets of 2 sources, the spec has 1"),
        ({"first": one, "second": two, "third": three}, "has offsets of 2 sources, the spec has 3"),
        ({"first": one, "second": three}, f"source second no longer reads {two}"),
        ({"other": one, "second": two}, "has sources first, second; the spec has other, second"),
    ):
        error = refusal(lab, of(changed))
        assert error.reason == "changed-sources", changed
        assert words in error.why, changed


def test_state_frozen_options_and_a_change_of_shape(lab: Any) -> None:
    topic = lab.topic()
    windows = {
        "decode": {"json": "origin STRING, t TIMESTAMP"}, "watermark": {"column": "t", "delay": "1h"},
        "transform": {"sql": "SELECT window(t, '1 hour').start AS hour, count(*) AS n FROM source "
                             "GROUP BY window(t, '1 hour')"},
    }  # fmt: skip
    document = lab.spec(topic, **windows, spark={"spark.sql.shuffle.partitions": 2})
    lab.produce(topic, [{"origin": "JFK", "t": f"2013-01-01T{hour:02d}:30:00Z"} for hour in range(6)])
    lab.run(document, 6)
    checkpoint = Path(lab.wanted(document).checkpoint)
    copy = checkpoint.with_name("copy")
    shutil.copytree(checkpoint, copy)

    lab.produce(topic, [{"origin": "JFK", "t": "2013-01-01T09:30:00Z"}])
    changed = {**document, "spark": {"spark.sql.shuffle.partitions": 3}}
    running = lab.run(changed, 1)
    said = "spark.sql.shuffle.partitions stays 2: the checkpoint has frozen it; 3 takes effect after reset"
    assert said in running.notes
    assert sorted(each.name for each in (checkpoint / "state" / "0").glob("[0-9]*")) == ["0", "1"], "as it said"

    newest = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    for file in (checkpoint / "state" / "0" / "1").glob(f"{newest + 1}*"):
        file.rename(file.with_name(f"taken-{file.name}"))
    error = refusal(lab, document)
    assert (error.reason, f"{checkpoint}/state/0/1" in error.why) == ("damaged-state", True)
    shutil.rmtree(checkpoint / "state")
    assert refusal(lab, document).reason == "changed-shape"
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    assert refusal(lab, document).reason == "older-checkpoint"


def test_a_checkpoint_that_is_damaged_or_of_another_stream_is_refused_by_name(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}])
    document = lab.spec(topic)
    checkpoint = Path(lab.wanted(document).checkpoint)

    # The first batch is planned and has not landed, and where it begins is lost.
    def die() -> None:
        raise RuntimeError("died in the batch")

    with failpoints.on("batch-start", die):
        lab.fail(document)
    lab.started.clear()
    sources = checkpoint / "sources"
    sources.rename(checkpoint / "away")
    error = refusal(lab, document)
    assert error.reason == "checkpoint-truncated"
    assert f"{checkpoint}/sources/0/0" in error.why
    (checkpoint / "away").rename(sources)
    lab.run(document, 1)

    # A file was edited by hand.
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    good = newest.read_text()
    newest.write_text(good.replace('"0":1', '"0":0'))
    assert newest.read_text() != good
    error = refusal(lab, document)
    assert error.reason == "checkpoint-truncated"
    assert f"{checkpoint}/offsets/{newest.name}: its checksum" in error.why
    newest.write_text(good)

    # It lies in the folder of the table.
    described = lab.spark.sql(f"DESCRIBE TABLE EXTENDED lake.{lab.namespace}.t")
    inside = Path(described.where("col_name = 'Location'").first()[1]) / "checkpoint"
    shutil.copytree(checkpoint, inside)
    with pytest.raises(Blocked) as raised:
        lab.starter().start(replace(lab.wanted(document), checkpoint=str(inside)))
    assert raised.value.reason == "checkpoint-in-table"

    # Two streams have it.
    lab.declared = lambda: {document["id"]: str(checkpoint), "twin": str(checkpoint)}
    error = refusal(lab, document)
    assert (error.reason, "twin" in error.what) == ("shared-checkpoint", True)

    # The stream has a new name.
    renamed = {**document, "id": f"{document['id']}_2"}
    lab.declared = lambda: {renamed["id"]: lab.wanted(renamed).checkpoint}
    error = refusal(lab, renamed)
    assert error.reason == "renamed-stream"
    assert [row["n"] for row in lab.rows()] == [1]
    # Both are meant: the statement it names makes room.
    lab.spark.sql(error.next.split('"')[1])
    lab.run(renamed, 1)
    assert [row["n"] for row in lab.rows()] == [1, 1]
