"""A table that is dropped or renamed under its stream: the stream waits, and nothing is made again in its place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from recorded_rows import batch

from lakeward.connectors.commit_protocol.position import of_properties
from lakeward.connectors.delta import location
from lakeward.connectors.iceberg import jvm
from lakeward.connectors.kafka import position
from lakeward.engine.assignment import Assignment
from lakeward.operations.backfill.backfill import backfill
from lakeward.operations.quarantine.remove import Failing, quarantine_rows
from lakeward.operations.replay.replay import replay
from lakeward.platform.errors import Blocked, Refused, Transient
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.report import quarantine_loss
from lakeward.supervision.report.quarantine_loss import QuarantineState, Rejected
from lakeward.telemetry import failpoints


def failure(lab: Any, running: Any) -> Blocked:
    """What the running stream fails of."""
    lab.started.clear()
    found = lab.failed(running)
    assert isinstance(found, Blocked), found
    return found


def refused(lab: Any, document: dict[str, Any], **more: Any) -> Blocked:
    with pytest.raises(Blocked) as raised:
        lab.start(document, **more)
    return raised.value


def statement(error: Blocked) -> str:
    """The statement its `next` names."""
    return error.next.split('"')[1]


def test_a_dropped_or_renamed_table_is_never_made_again(lab: Any) -> None:
    topic, table = lab.topic(), f"{lab.namespace}.t"
    document = lab.spec(topic)
    lab.produce(topic, [{"n": 1}])
    running = lab.start(document)
    lab.until("the first row", lambda: lab.done)
    lab.spark.sql(f"DROP TABLE lake.{table}")
    lab.produce(topic, [{"n": 2}])
    while_running = failure(lab, running)
    again = refused(lab, document)
    for error in (while_running, again):
        assert (error.reason, error.what) == ("table-missing", f"Table {table} of stream {document['id']} was dropped")
        assert f"CALL lake.system.register_table(table => '{table}'" in error.next
    assert not lab.spark.catalog.tableExists(f"lake.{table}"), "nobody made it again"
    lab.spark.sql(statement(again))
    lab.run(document, 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2]

    lab.produce(topic, [{"n": 3}])
    with failpoints.on("after-check", lambda: lab.spark.sql(f"ALTER TABLE lake.{table} RENAME TO {lab.namespace}.u")):
        renamed = failure(lab, lab.start(document))
    again = refused(lab, document)
    for error in (renamed, again):
        assert error.reason == "table-renamed"
        assert f"{lab.namespace}.u has the stream's position: 2 rows up to seq" in error.why
    lab.spark.sql(statement(again))
    lab.run(document, 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]

    checkpoint = Path(lab.wanted(document).checkpoint)
    lab.spark.sql(f"DROP TABLE lake.{table} PURGE")
    shutil.rmtree(checkpoint)
    lost = refused(lab, document, known_query="one that ran")
    assert (lost.reason, checkpoint.exists()) == ("table-missing", False)
    assert "restore it from a backup" in lost.next


def test_a_delta_table_whose_folder_is_moved_away_is_never_made_again(lab: Any) -> None:
    topic, table = lab.topic(), f"{lab.namespace}.d"
    document = lab.spec(topic, sink={"delta": {"table": table}})
    folder = location.folder_of(lab.runtime.lake, table)
    lab.produce(topic, [{"n": 1}])
    running = lab.start(document)
    lab.until("the first row", lambda: lab.done)
    folder.rename(folder.with_name("away"))
    lab.produce(topic, [{"n": 2}])
    assert failure(lab, running).reason == "table-missing"
    again = refused(lab, document)
    assert (again.reason, again.what) == ("table-missing", f"Table {table} of stream {document['id']} is missing")
    assert not location.exists(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name("away").rename(folder)
    lab.run(document, 1)
    assert sorted(row["n"] for row in lab.spark.read.format("delta").load(str(folder)).collect()) == [1, 2]


def test_a_dropped_quarantine_table_is_made_again_only_while_no_rejected_record_was_in_it(lab: Any) -> None:
    topic, table = lab.topic(), f"{lab.namespace}.q"
    document = lab.spec(topic)
    lab.produce(topic, [{"n": 1}])
    running = lab.start(document)
    lab.until("the first row", lambda: lab.done)
    lab.spark.sql(f"DROP TABLE lake.{table}")
    lab.produce(topic, ["no json"])
    lab.started.clear()
    assert isinstance(lab.failed(running), Transient), running.failure()
    lab.run(document, 1)
    assert [row["raw"] for row in lab.rows("q")] == [b"no json"]

    lab.spark.sql(f"DROP TABLE lake.{table}")
    dropped = refused(lab, document)
    assert (dropped.reason, dropped.what) == (
        "quarantine-missing",
        f"Quarantine table {table} of stream {document['id']} was dropped",
    )
    assert dropped.why.startswith("1 rejected record of the stream was in it")
    first, end = (position.render({topic: {0: offset}}) for offset in (0, 1))
    wanted, history = Assignment(document["id"], 1, document, ""), f"{lab.namespace}.history"
    failing = Failing("small", "n", lambda spark: spark.table(f"lake.{lab.namespace}.t"), lambda rows: rows["n"] > 0)
    for operation in (
        lambda: replay(lab.spark, wanted, lab.runtime),
        lambda: replay(lab.spark, wanted, lab.runtime, dry_run=True),
        lambda: quarantine_rows(lab.spark, wanted, lab.runtime, failing),
        lambda: backfill(lab.spark, wanted, lab.runtime, first, end, into=history),
    ):
        with pytest.raises(Refused, match=f"Quarantine table {table} of stream .* does not exist") as raised:
            operation()
        assert raised.value.why.startswith("1 record that the stream rejected landed nowhere since")
    assert not lab.spark.catalog.tableExists(f"lake.{table}"), "nothing created it again"
    lab.spark.sql(statement(dropped))
    lab.produce(topic, ["no json either"])
    lab.run(document, 1)
    assert sorted(row["raw"] for row in lab.rows("q")) == [b"no json", b"no json either"]

    lab.spark.sql(f"DROP TABLE lake.{table} PURGE")
    purged = refused(lab, document)
    assert purged.why.startswith("2 rejected records of the stream were in it")
    lab.spark.sql(purged.next.split("'")[1])
    lab.produce(topic, ["the third"])
    lab.run(document, 1)
    assert [row["raw"] for row in lab.rows("q")] == [b"the third"]

    # The loss is said until a person gives the records up; what is deleted afterwards is a loss again.
    found = lost(lab, document)
    assert (found.records, found.missing) == (2, False)
    lab.spark.sql(found.next.split('"')[1])
    assert lost(lab, document).records == 0
    lab.spark.sql(f"DELETE FROM lake.{table}")
    found = lost(lab, document)
    assert (found.records, found.where) == (1, ())
    lab.spark.sql(found.next.split('"')[1])
    assert lost(lab, document).text == ""


@pytest.mark.campaign(held_by="test_a_dropped_quarantine_table_is_made_again_only_while_no_rejected_record_was_in_it")
def test_rows_that_were_deleted_after_their_records_landed_are_no_loss(lab: Any) -> None:
    topic = lab.topic()
    document = lab.spec(topic, rules={"small": "n < 5"})
    lab.produce(topic, [{"n": 9}, "no json"])
    lab.run(document, 2)
    assert lost(lab, document).records == 0
    replay(lab.spark, Assignment(document["id"], 2, {**document, "rules": {}}, ""), lab.runtime)
    assert [row["n"] for row in lab.rows()] == [9]
    lab.spark.sql(f"DELETE FROM lake.{lab.namespace}.q WHERE replayed_at IS NOT NULL")
    assert len(lab.rows("q")) == 1
    assert lost(lab, document).records == 0
    lab.spark.sql(f"DELETE FROM lake.{lab.namespace}.q")
    assert lost(lab, document).records == 1


@pytest.mark.campaign(held_by="test_a_dropped_quarantine_table_is_made_again_only_while_no_rejected_record_was_in_it")
def test_a_dropped_table_of_late_records_is_made_again_only_while_no_late_record_was_in_it(lab: Any) -> None:
    topic, table = lab.topic(), f"{lab.namespace}.late"
    document = lab.spec(
        topic,
        decode={"json": "k STRING, at TIMESTAMP"},
        watermark={"column": "at", "delay": "10m"},
        late={"table": table},
        transform={"sql": "SELECT window(at, '5 minutes') AS w, count(*) AS n FROM source GROUP BY 1"},
        spark={"spark.sql.shuffle.partitions": 2, "spark.sql.streaming.noDataMicroBatches.enabled": False},
    )

    def at(time: str) -> dict[str, str]:
        return {"k": time, "at": f"2026-03-01T{time}Z"}

    lab.produce(topic, [at("10:05:00")])
    lab.run(document, 1)
    lab.spark.sql(f"DROP TABLE lake.{table}")
    lab.late_kept = lambda stream, name: (0, ())
    lab.produce(topic, [at("10:06:00")])
    running = lab.start(document)
    lab.until("the record", lambda: sum(done.consumed for done in lab.done) == 2)
    assert lab.rows("late") == []
    lab.land(topic, at("09:00:00"))
    assert running.stop(60)
    assert [json.loads(row["row"])["k"] for row in lab.rows("late")] == ["09:00:00"]

    lab.spark.sql(f"DROP TABLE lake.{table}")
    lab.late_kept = lambda stream, name: (1, (f"{topic}/0: 2",)) if name == table else None
    dropped = refused(lab, document)
    assert (dropped.reason, dropped.code, dropped.what) == (
        "late-missing",
        "LW-3482",
        f"Table {table}, which keeps late records of stream {document['id']}, was dropped",
    )
    assert dropped.why.startswith(f"1 late record ({topic}/0: 2) of the stream was in it")
    assert not lab.spark.catalog.tableExists(f"lake.{table}"), "nothing created it again"
    lab.spark.sql(statement(dropped))
    lab.run(document, 0)
    assert [json.loads(row["row"])["k"] for row in lab.rows("late")] == ["09:00:00"]

    lab.spark.sql(f"DROP TABLE lake.{table} PURGE")
    lab.spark.sql(refused(lab, document).next.split("'")[1])  # gives them up
    lab.produce(topic, [at("09:01:00")])
    lab.run(document, 1)
    assert [json.loads(row["row"])["k"] for row in lab.rows("late")] == ["09:01:00"]


@pytest.mark.campaign(held_by="test_a_dropped_quarantine_table_is_made_again_only_while_no_rejected_record_was_in_it")
def test_a_generation_that_names_another_quarantine_table_lost_nothing(lab: Any) -> None:
    topic, other = lab.topic(), f"{lab.namespace}.q2"
    document = lab.spec(topic)
    lab.quarantine_tables = lambda stream: {f"{lab.namespace}.q", other}
    lab.produce(topic, ["no json"])
    lab.run(document, 1)
    renamed = {**document, "quarantine": {"table": other}}
    lab.produce(topic, ["no json either"])
    lab.run(renamed, 1)
    assert [row["raw"] for row in lab.rows("q")] == [b"no json"]
    assert [row["raw"] for row in lab.rows("q2")] == [b"no json either"]
    assert lost(lab, renamed).records == 0

    lab.spark.sql(f"DROP TABLE lake.{other}")
    assert (lost(lab, renamed).records, lost(lab, renamed).where) == (1, (f"{topic}/0: 1",))
    dropped = refused(lab, renamed)
    assert dropped.why.startswith("1 rejected record of the stream was in it")
    lab.quarantine_tables = lambda stream: None  # the registry is down: whose table is missing is not known
    lab.run(renamed, 0)
    assert lab.rows("q2") == []
    lab.quarantine_tables = lambda stream: {f"{lab.namespace}.q", other}
    assert lost(lab, renamed).text.startswith(f"1 rejected record ({topic}/0: 1) is in no table")


def lost(lab: Any, document: dict[str, Any]) -> QuarantineState:
    """What the status says of the rejected records."""
    properties = jvm.metadata_of(jvm.load(lab.spark, f"{lab.namespace}.t")).properties()
    position = of_properties(properties, f"{lab.namespace}.t")[document["id"]]
    rejecting = [
        batch(start_offsets=done.outcome.batch.start, end_offsets=done.outcome.batch.end, quarantined=done.quarantined)
        for done in reversed(lab.done) if done.quarantined
    ]  # fmt: skip
    known = Rejected(rejecting, lab.quarantine_tables(document["id"]) or ())
    spec = StreamSpec.model_validate({**document, "lineage": "rows"})  # as the loader resolves it
    found = quarantine_loss.read(lab.runtime, spec, position, lambda: known)
    assert found is not None
    return found
