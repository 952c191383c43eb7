"""What happens to a topic while a stream reads it: partitions come, retention passes, it is deleted and made again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from moved_rig import Registry, accepted, approved, deployed

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg import audit as auditing
from lakeward.connectors.kafka import position as offsets
from lakeward.engine.assignment import Assignment
from lakeward.operations import sink_position
from lakeward.operations.backfill.backfill import overwrite
from lakeward.operations.quarantine.remove import Failing, quarantine_rows
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Blocked, Refused
from lakeward.registry import generations, streams
from lakeward.spec.model.stream import StreamSpec


@pytest.fixture
def admin(lab: Any) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": lab.kafka.bootstrap})


def produce(lab: Any, topic: str, partition: int, numbers: range, letters: int = 1) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap})
    for n in numbers:
        producer.produce(topic, json.dumps({"n": n, "s": "a" * letters}), partition=partition)
    assert producer.flush(60) == 0


def give_up(admin: Any, topic: str, before: int, partition: int = 0) -> None:
    """What retention does, at once."""
    from confluent_kafka import TopicPartition

    for done in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        done.result(30)


def landed(lab: Any) -> list[tuple[int, int]]:
    return sorted((row["_kafka_partition"], row["_kafka_offset"]) for row in lab.rows())


STATE = {"watermark": {"column": "_kafka_timestamp", "delay": "1h"}, "deduplicate": {"keys": ["n"]}}


@pytest.mark.parametrize(
    "more", [{}, pytest.param(STATE, marks=pytest.mark.campaign)], ids=["row by row", "with state"]
)
def test_a_partition_that_comes_while_a_stream_runs_or_is_stopped_is_read_from_its_first_record(
    lab: Any, admin: Any, more: dict[str, Any]
) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = lab.topic()
    produce(lab, topic, 0, range(3))
    document = lab.spec(topic, **more)
    running = lab.start(document)
    lab.until_rows(3)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    produce(lab, topic, 1, range(10, 14))
    lab.until_rows(7)
    produce(lab, topic, 0, range(3, 5))
    lab.until_rows(9)
    assert running.stop(60)
    assert landed(lab) == [(0, n) for n in range(5)] + [(1, n) for n in range(4)]

    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    produce(lab, topic, 2, range(20, 23))
    lab.run(document, 3)
    assert landed(lab)[9:] == [(2, n) for n in range(3)]


def test_retention_that_passes_a_running_stream_blocks_it_with_the_range_and_what_is_left_can_be_landed(
    lab: Any, admin: Any, registry: Registry, operator: Runner
) -> None:
    topic = lab.topic()
    document = {**lab.spec(topic, trigger={"every": "2s"}), "lineage": "rows"}
    document["source"]["kafka"]["max_offsets_per_trigger"] = 5
    produce(lab, topic, 0, range(40), letters=200_000)  # more than the consumer has fetched ahead
    running = lab.start(document)
    lab.until("the first batch", lambda: len(lab.done) >= 1)
    give_up(admin, topic, 30)
    lab.failed(running)
    had = len(lab.rows())
    assert had < 30

    lab.started.clear()
    with pytest.raises(Blocked) as told:
        lab.starter().start(lab.wanted(document))
    assert f"{topic}/0: {had} to 29 ({30 - had} offsets)" in str(told.value)
    assert "--to available" in str(told.value)

    deployed(registry, document, lab.wanted(document).checkpoint)
    request = Request(StreamOperation.RESET, document["id"], comment="retention", to="available", wait=False)
    plan, request = approved(operator, request)
    assert plan.data["skipped"] == 30 - had
    assert plan.data["read_again"] == 0
    operator.run(request)
    running = lab.starter().start(accepted(registry, document["id"], lab.wanted(document)))
    lab.started.append(running)
    lab.until_rows(had + 10)
    assert running.stop(60)
    assert landed(lab) == [(0, n) for n in [*range(had), *range(30, 40)]]
    table = sink_position.lake_of(lab.runtime).load_table(f"{lab.namespace}.t")
    at = position.parse(table.properties[position.key(document["id"])], document["id"], "t")
    found = auditing.audit(table, document["id"], at)
    assert (found.skipped, found.missing, found.duplicates) == (30 - had, 0, 0)


def test_what_came_and_lost_its_first_records_blocks_the_stream_and_what_is_left_can_be_landed(
    lab: Any, admin: Any, registry: Registry, operator: Runner
) -> None:
    from confluent_kafka.admin import NewPartitions

    topic, added = lab.topic(), lab.topic()
    document = {**lab.spec(topic), "lineage": "rows"}
    wanted = lab.wanted(document)

    def land_what_is_left(rows: int, skipped: int) -> None:
        request = Request(StreamOperation.RESET, document["id"], comment="retention", to="available", wait=False)
        plan, request = approved(operator, request)
        assert (plan.data["skipped"], plan.data["read_again"]) == (skipped, 0)
        operator.run(request)
        running = lab.starter().start(replace(accepted(registry, document["id"], wanted), document=document))
        lab.started.append(running)
        lab.until_rows(rows)
        assert running.stop(60)

    produce(lab, topic, 0, range(3))
    lab.run(document, 3)
    deployed(registry, document, wanted.checkpoint)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    produce(lab, topic, 1, range(10))
    give_up(admin, topic, 6, partition=1)
    with pytest.raises(Blocked) as told:  # Spark would fail for ever: "added partition starts from 6 instead of 0"
        lab.start(document)
    assert (told.value.reason, f"{topic}/1: 0 to 5 (6 offsets)" in told.value.why) == ("source-expired", True)
    land_what_is_left(7, skipped=6)
    assert landed(lab) == [(0, n) for n in range(3)] + [(1, n) for n in range(6, 10)]

    # A topic that is added is read from its first available record.
    produce(lab, added, 0, range(10))
    give_up(admin, added, 6)
    document["source"] = {"kafka": {"topics": [topic, added], "max_offsets_per_trigger": 1000}}
    now = replace(accepted(registry, document["id"], wanted), document=document)
    with pytest.raises(Blocked) as told:  # Spark would fail for ever
        lab.starter().start(now)
    assert told.value.reason == "topic-added-late" and f"{added}/0: 0 to 5 (6 offsets)" in told.value.why
    with registry() as connection:
        generation = streams.get(connection, document["id"]).generation + 1
        generations.add(
            connection, stream=document["id"], generation=generation,
            spec=StreamSpec.model_validate(document).document(), digest="e", sql=None, code={}, versions={},
            author="ann", checkpoint=now.checkpoint,
        )  # fmt: skip
        streams.accept(connection, document["id"], generation=generation, driver="d")
    land_what_is_left(11, skipped=0)
    assert landed(lab) == [(0, n) for n in [0, 1, 2, 6, 7, 8, 9]] + [(1, n) for n in range(6, 10)]
    table = sink_position.lake_of(lab.runtime).load_table(f"{lab.namespace}.t")
    at = position.parse(table.properties[position.key(document["id"])], document["id"], "t")
    found = auditing.audit(table, document["id"], at)
    assert (found.skipped, found.missing, found.duplicates) == (6, 0, 0)


def test_a_topic_made_again_under_a_running_stream_blocks_it(lab: Any, admin: Any) -> None:
    topic = lab.topic()
    produce(lab, topic, 0, range(5))
    document = {**lab.spec(topic), "lineage": "rows"}
    running = lab.start(document)
    lab.until_rows(5)
    admin.delete_topics([topic])[topic].result(30)
    from confluent_kafka.admin import NewTopic

    made = False
    while not made:
        future = admin.create_topics([NewTopic(topic, 1, 1)])[topic]
        made = future.exception(30) is None
    produce(lab, topic, 0, range(100, 120))
    lab.failed(running)
    lab.started.clear()
    with pytest.raises(Blocked, match="was deleted and created again") as told:
        lab.starter().start(lab.wanted(document))
    assert told.value.reason == "topic-replaced"
    assert topic in told.value.what
    assert [n for _, n in landed(lab)] == list(range(5))

    from pyspark.sql import functions as F

    # No operation takes the new records, which have the offsets of the old ones, for them.
    first, end = (offsets.render({topic: {0: at}}) for at in (0, 5))
    with pytest.raises(Refused, match=f"topic {topic} was deleted and created again"):
        overwrite(lab.spark, Assignment(document["id"], 2, document, ""), lab.runtime, first, end)
    assert sorted(row["n"] for row in lab.rows()) == list(range(5))
    table = f"lake.{lab.namespace}.t"
    failing = Failing("small", "n", lambda spark: spark.table(table), lambda rows: F.col("n") > 3)
    quarantine_rows(lab.spark, lab.wanted(document), lab.runtime, failing)
    assert [(row["kept"], json.loads(row["raw"])["n"]) for row in lab.rows("q")] == [("row", 4)]
