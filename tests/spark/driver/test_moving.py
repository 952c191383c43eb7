"""Positions that a person moved: a real query goes on exactly there, under a new checkpoint."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from moved_rig import Registry, accepted, approved, deployed

from lakeward.cli.streams.audit import audit
from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg import audit as auditing
from lakeward.connectors.iceberg import catalog
from lakeward.driver.failing import Failure
from lakeward.operations import sink_position
from lakeward.operations.import_checkpoint import Import
from lakeward.operations.operation import HeldLocks, Operation
from lakeward.operations.recover import Recover
from lakeward.operations.request import Plan, Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import Blocked, Fenced, Refused
from lakeward.platform.failures import FailureClass
from lakeward.platform.runtime import Database
from lakeward.registry import operations, streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends.local import LocalBackend
from lakeward.telemetry import failpoints


def go_on(lab: Any, wanted: Any, rows: int) -> None:
    running = lab.starter().start(wanted)
    lab.started.append(running)
    lab.until_rows(rows)
    assert running.stop(60)


def late(operator: Runner, act: Operation[Any], plan: Plan) -> str:
    """Carry a plan out although things may have moved since."""
    with operator.connect() as connection:
        ticket = operations.begin(
            connection, act.subject, act.name, author="ann", holder="a test", token="t", comment=""
        )
    try:
        return act.apply(plan, HeldLocks(streams={act.subject: Waiting(operator, ticket)})).detail
    finally:
        with operator.connect() as connection:
            operations.end(connection, ticket, "refused", "a test")


def landed_by_somebody(operator: Runner, document: dict[str, Any]) -> None:
    """A driver nobody knew of lands one more batch."""
    found = sink_position.of(operator, StreamSpec.model_validate(document), "read")
    assert found.position is not None
    found.write(found.position.model_copy(update={"seq": found.position.seq + 1, "attempt": "q/9/x"}))


def landing(lab: Any, topic: str, rows: int, **more: Any) -> dict[str, Any]:
    """The spec of a stream that has landed so many rows and was stopped."""
    document = {**lab.spec(topic, **more), "lineage": "rows"}
    lab.produce(topic, [{"n": n, "s": "a"} for n in range(rows)])
    lab.run(document, rows)
    return document


def add_partition(lab: Any, topic: str, count: int) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": lab.kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)


def test_a_recovery_goes_on_at_the_position_with_partitions_that_came_meanwhile(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    topic = lab.topic()
    document = landing(lab, topic, 5)
    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    with pytest.raises(Blocked, match="lakeward streams recover"):
        lab.starter().start(wanted)
    add_partition(lab, topic, 2)
    lab.produce(topic, [{"n": n, "s": "b"} for n in range(5, 8)])
    deployed(registry, document, wanted.checkpoint)
    request = Request(StreamOperation.RECOVER, document["id"], wait=False)

    planned = operator.dry_run(request)
    assert planned.result == "skipped"
    operator.run(request)

    again = accepted(registry, document["id"], wanted)
    assert (again.generation, again.checkpoint) == (2, planned.data["checkpoint"])
    go_on(lab, again, 8)
    assert sorted(row["_kafka_offset"] for row in lab.rows()) == list(range(8))
    with pytest.raises(Refused, match="streams stop"):
        operator.run(request)


def test_a_position_in_postgresql_is_moved_by_the_same_operations(
    lab: Any, postgres: Any, database: str, registry: Registry
) -> None:
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    lab.runtime = lab.runtime.model_copy(update={"postgres": {"there": where}, "pgpass": postgres.pgpass})
    nothing = LocalBackend(lab.runtime.drivers, wrapper=("/bin/true",))
    operator = Runner(registry, lab.runtime, author="ann", holder="a test", backend=nothing)
    document = landing(lab, lab.topic(), 5, sink={"postgres": {"connection": "there", "table": "app.t"}})
    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    with pytest.raises(Blocked, match="lakeward streams recover"):
        lab.starter().start(wanted)
    deployed(registry, document, wanted.checkpoint)
    with pytest.raises(Refused, match="its sink is a PostgreSQL table"):
        operator.run(Request(StreamOperation.IMPORT, document["id"], folder="/none"))
    request = Request(StreamOperation.RESET, document["id"], comment="again", to="earliest", duplicates=4, wait=False)
    with pytest.raises(Refused, match="would land 5 rows a second time"):
        operator.run(approved(operator, request)[1])
    operator.run(approved(operator, replace(request, duplicates=5))[1])
    act = Recover(operator, Request(StreamOperation.RECOVER, document["id"], wait=False))
    plan = act.plan()
    stale = sink_position.of(operator, StreamSpec.model_validate(document), "read")
    landed_by_somebody(operator, document)
    with pytest.raises(Refused, match="its position moved since the plan"):
        late(operator, act, plan)
    assert stale.position is not None
    with pytest.raises(Fenced, match="moved its position"):
        stale.write(stale.position.model_copy(update={"seq": 99}))
    operator.run(act.request)

    again = accepted(registry, document["id"], wanted)
    running = lab.starter().start(again)
    lab.started.append(running)
    spec = StreamSpec.model_validate(document)
    lab.until("10 rows", lambda: audit(lab.runtime, spec)["duplicates"] == 5)
    assert running.stop(60)


@pytest.mark.campaign(held_by="test_a_position_in_postgresql_is_moved_by_the_same_operations")
def test_a_recovery_whose_position_moved_since_it_was_planned_changes_nothing(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    document = landing(lab, lab.topic(), 3)
    deployed(registry, document, lab.wanted(document).checkpoint)
    act = Recover(operator, Request(StreamOperation.RECOVER, document["id"], wait=False))
    plan = act.plan()
    landed_by_somebody(operator, document)
    before = sink_position.of(operator, StreamSpec.model_validate(document), "read").raw
    with pytest.raises(Refused, match="its position moved since the plan"):
        late(operator, act, plan)
    assert sink_position.of(operator, StreamSpec.model_validate(document), "read").raw == before


def test_a_lost_checkpoint_of_files_is_made_again_from_the_copy_of_their_log(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    arrived = Path(lab.folder) / "in"
    arrived.mkdir()

    def put(*numbers: int) -> None:
        for number in numbers:
            staged = arrived / f".{number}"
            staged.write_text(f'{{"n": {number}}}\n')
            staged.rename(arrived / f"{number}.json")

    def die() -> None:
        raise RuntimeError("died")

    put(0, 1, 2)
    document = lab.spec(
        "none",
        source={"files": {"path": str(arrived), "format": "json", "max_files_per_trigger": 1}},
        spark={"spark.sql.streaming.fileSource.log.compactInterval": 3},
    )
    lab.run(document, 3)
    put(3)
    with failpoints.on("after-publish", die):
        lab.fail(document)  # in the table, and in nothing that would be done after it
    lab.started.clear()
    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    (arrived / "0.json").unlink()  # what has landed need not be there any more
    put(4, 5)
    with pytest.raises(Blocked, match="lakeward streams recover"):
        lab.starter().start(wanted)
    deployed(registry, document, wanted.checkpoint)
    request = Request(StreamOperation.RECOVER, document["id"], wait=False)

    location = sink_position.in_lake(
        operator, StreamSpec.model_validate(document), sink_position.RECOVER
    ).table.location()
    copy = Path(f"{location.removeprefix('file:')}.sources") / document["id"] / "source"
    away = copy.with_name("away")
    copy.rename(away)
    with pytest.raises(Refused, match="does not list the landed files of source source"):
        operator.run(request)
    away.rename(copy)
    with pytest.raises(Refused, match="only Kafka offsets do"):
        operator.run(replace(request, operation=StreamOperation.RESET, to="latest", comment="no"))

    oldest = copy / "2.compact"
    good = oldest.read_text()
    edited = good.replace("/1.json", "/5.json")
    oldest.write_text(edited)
    with pytest.raises(Refused, match="does not list the landed files of source source"):
        operator.run(request)
    oldest.write_text(good)

    operator.run(request)
    again = accepted(registry, document["id"], wanted)
    oldest.write_text(edited)
    with pytest.raises(Blocked, match="Cannot rebuild the checkpoint"):
        lab.starter().start(again)
    assert not Path(again.checkpoint).exists()
    oldest.write_text(good)
    go_on(lab, again, 6)
    put(6)
    go_on(lab, again, 7)
    assert sorted(row["n"] for row in lab.rows()) == list(range(7))


def test_a_poisoned_batch_that_was_skipped_is_passed_and_the_audit_accounts_for_it(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    from pyiceberg.catalog import load_catalog

    topic = lab.topic()
    document = {
        **lab.spec(topic),
        "lineage": "rows",
        "transform": {"sql": "SELECT *, 12 / n AS share FROM source"},
    }
    lab.produce(topic, [{"n": n} for n in (1, 2, 3)])
    lab.run(document, 3)
    lab.produce(topic, [{"n": 0}])
    assert "DIVIDE_BY_ZERO" in str(lab.fail(document))
    wanted = lab.wanted(document)
    failed = max(int(file.name) for file in Path(wanted.checkpoint, "offsets").iterdir() if file.name.isdigit())
    deployed(registry, document, wanted.checkpoint)
    with registry() as connection:
        streams.block(connection, document["id"], {"reason": "poison", "what": "", "next": "", "batch": failed})

    request = Request(StreamOperation.SKIP_BATCH, document["id"], comment="junk", batch=failed, wait=False)
    plan, request = approved(operator, request)
    assert plan.data["skipped"] == 1
    operator.run(request)

    lab.produce(topic, [{"n": 4}])
    lab.started.clear()  # what failed is over
    go_on(lab, accepted(registry, document["id"], wanted), 4)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3, 4]
    lake = load_catalog("lake", **catalog.pyiceberg_properties(lab.runtime.lake, lab.runtime.pgpass))
    table = lake.load_table(f"{lab.namespace}.t")
    at = position.parse(table.properties[position.key(document["id"])], document["id"], "t")
    found = auditing.audit(table, document["id"], at)
    assert (at.totals.skipped, found.skipped, found.missing, found.duplicates) == (1, 1, 0, 0)


def test_a_record_whose_time_spark_cannot_hold_is_reported_shown_and_skipped(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    """Nanoseconds for milliseconds: Spark's source fails before any code of a stream sees the record."""
    from confluent_kafka import Producer

    topic = lab.topic(**{"message.timestamp.after.max.ms": str(2**63 - 1)})  # what brokers before 4.0 have
    document = lab.spec(topic, lineage="rows")
    lab.produce(topic, [{"n": 1}])
    lab.run(document, 1)
    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap})
    producer.produce(topic, '{"n": 2}', partition=0, timestamp=1_700_000_000_000_000_000)
    assert producer.flush(60) == 0
    running = lab.start(document)
    lab.failed(running)
    failure = Failure(*running.failure())
    assert failure.judgement.failure_class == FailureClass.POISON
    assert "[LW-3491]" in failure.words and f"{topic}/0 offset 1 was written at 17" in failure.words
    assert "Python Proxy" not in failure.words
    wanted = lab.wanted(document)
    failed = max(int(file.name) for file in Path(wanted.checkpoint, "offsets").iterdir() if file.name.isdigit())
    deployed(registry, document, wanted.checkpoint)
    with registry() as connection:
        streams.block(connection, document["id"], {"reason": "poison", "what": "", "next": "", "batch": failed})
    request = Request(StreamOperation.SKIP_BATCH, document["id"], comment="no time", batch=failed, wait=False)
    plan, request = approved(operator, request)
    assert plan.data["skipped"] == 1
    operator.run(request)
    lab.produce(topic, [{"n": 3}])
    lab.started.clear()  # what failed is over
    go_on(lab, accepted(registry, document["id"], wanted), 2)
    assert sorted(row["n"] for row in lab.rows()) == [1, 3]


@pytest.mark.campaign(held_by="test_a_position_in_postgresql_is_moved_by_the_same_operations")
def test_a_reset_back_reads_again_just_what_it_said(lab: Any, registry: Registry, operator: Runner) -> None:
    document = landing(lab, lab.topic(), 3)
    wanted = lab.wanted(document)
    deployed(registry, document, wanted.checkpoint)
    request = Request(StreamOperation.RESET, document["id"], comment="again", to="earliest", duplicates=3, wait=False)
    plan, request = approved(operator, request)
    assert (plan.data["read_again"], plan.data["duplicates"]) == (3, 3)
    operator.run(request)
    go_on(lab, accepted(registry, document["id"], wanted), 6)
    assert sorted(row["_kafka_offset"] for row in lab.rows()) == [0, 0, 1, 1, 2, 2]


def test_a_native_query_is_taken_over_where_it_stopped(lab: Any, registry: Registry, operator: Runner) -> None:
    from pyspark.sql import functions as F  # the name everybody knows it by

    topic = lab.topic()
    lab.produce(topic, [{"n": n, "s": "old"} for n in range(5)])
    value = F.from_json(F.col("value").cast("string"), "n INT, s STRING")
    rows = (
        lab.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", lab.kafka.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "2")
        .load()
        .select(
            value["n"].alias("n"), value["s"].alias("s"), F.col("topic").alias("_kafka_topic"),
            F.col("partition").alias("_kafka_partition"), F.col("offset").alias("_kafka_offset"),
            F.col("timestamp").alias("_kafka_timestamp"), F.current_timestamp().alias("_ingested_at"),
        )
    )  # fmt: skip
    old = f"{lab.folder}/old"
    query = (
        rows.writeStream.option("checkpointLocation", old).trigger(availableNow=True).toTable(f"lake.{lab.namespace}.t")
    )
    assert query.awaitTermination(300)
    document = {**lab.spec(topic), "lineage": "rows"}
    wanted = lab.wanted(document)
    deployed(registry, document, wanted.checkpoint)

    request = Request(StreamOperation.IMPORT, document["id"], folder=old)
    planned = operator.plan(request)
    outcome = operator.run(request)
    with pytest.raises(Refused, match="since the plan was made"):
        late(operator, Import(operator, request), planned)
    assert outcome.data["equality"].startswith("proved: all 5 records")

    lab.produce(topic, [{"n": n, "s": "new"} for n in range(5, 8)])
    back = Import(operator, Request(StreamOperation.IMPORT, document["id"], undo=True))
    undo = back.plan()
    go_on(lab, wanted, 8)
    assert sorted(row["_kafka_offset"] for row in lab.rows()) == list(range(8))
    with pytest.raises(Refused, match="no import"):
        late(operator, back, undo)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_delta_source.py::test_a_table_lands_as_it_is_and_then_its_appends_once"
)
def test_a_lost_checkpoint_of_a_table_goes_on_in_the_middle_of_a_commit(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    lab.spark.sql(f"CREATE TABLE lake.{lab.namespace}.up (n INT)")
    lab.spark.sql(f"INSERT INTO lake.{lab.namespace}.up SELECT /*+ REPARTITION(3) */ CAST(id AS INT) FROM range(6)")
    feed = {"iceberg": {"table": f"{lab.namespace}.up", "max_files_per_trigger": 1}}
    document = lab.spec("none", source=feed, trigger={"every": "1h"})
    document.pop("decode")
    running = lab.start(document)
    lab.until_rows(1)
    assert running.stop(60)
    first = len(lab.rows())
    assert 0 < first < 6
    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    lab.started.clear()
    with pytest.raises(Blocked, match="lakeward streams recover"):
        lab.starter().start(wanted)
    document["trigger"] = {"available_now": True, "schedule": "0 * * * *"}
    deployed(registry, document, wanted.checkpoint)
    operator.run(Request(StreamOperation.RECOVER, document["id"], wait=False))
    again = replace(accepted(registry, document["id"], wanted), document=document)
    running = lab.starter().start(again)
    lab.started.append(running)
    lab.until("the end", lambda: not running.active)
    assert sorted(row["n"] for row in lab.rows()) == list(range(6)), "the rest of the commit, each row once"
    [part] = audit(lab.runtime, StreamSpec.model_validate(document))["partitions"]
    assert (part["partition"], part["missing"]) == ("snapshot", None)
