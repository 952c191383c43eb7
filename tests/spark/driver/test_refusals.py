"""What a driver refuses, and in which words: before anything is landed, naming what to do."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.errors import Blocked, DependencyDown, SpecError
from lakeward.platform.failures import FailureClass, classify

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_a_column_the_sql_does_not_find(lab: Any) -> None:
    document = lab.spec(lab.topic(), transform={"sql": "SELECT nn FROM source"})
    with pytest.raises(SpecError) as raised:
        lab.start(document)
    assert "`nn`" in raised.value.why
    assert classify(error=raised.value) is FailureClass.CONFIG


def test_a_sink_table_with_other_columns_names_them(lab: Any) -> None:
    lab.spark.sql(
        f"CREATE TABLE lake.{lab.namespace}.t (n INT, extra INT) USING iceberg "
        "TBLPROPERTIES ('write.wap.enabled'='true')"
    )
    document = lab.spec(
        lab.topic(), decode={"json": "n BIGINT, s STRING"}, transform={"sql": "SELECT n, s AS other FROM source"}
    )
    with pytest.raises(SpecError) as raised:
        lab.start(document)
    assert raised.value.why == "not in the table: other; only in the table: extra; n is BIGINT, the table has INT"


def test_a_type_that_fits_without_loss_is_taken(lab: Any) -> None:
    lab.spark.sql(
        f"CREATE TABLE lake.{lab.namespace}.t (n BIGINT) USING iceberg TBLPROPERTIES ('write.wap.enabled'='true')"
    )
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}])
    lab.run(lab.spec(topic, transform={"sql": "SELECT n FROM source"}), 1)
    assert [row["n"] for row in lab.rows()] == [1]


def test_a_rule_on_no_column_and_one_that_is_no_condition(lab: Any) -> None:
    topic = lab.topic()
    with pytest.raises(SpecError, match="Rule broken does not fit"):
        lab.start(lab.spec(topic, rules={"broken": "missing > 1"}))
    with pytest.raises(SpecError, match="Rule odd is not a condition"):
        lab.start(lab.spec(topic, rules={"odd": "n + 1"}))


def test_a_topic_that_is_not_there(lab: Any) -> None:
    with pytest.raises(SpecError, match="Kafka has no topic nowhere"):
        lab.start(lab.spec("nowhere"))


def test_a_broker_that_is_not_there(lab: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        lab.runtime = lab.runtime.model_copy(update={"kafka": {"lakeward_kafka": dead}})
        with pytest.raises(DependencyDown) as raised:
            lab.start(lab.spec("flights"))
    assert dead in raised.value.why
    assert classify(error=raised.value) is FailureClass.DEPENDENCY


def test_a_connection_nobody_knows(lab: Any) -> None:
    document = lab.spec("t")
    document["source"]["kafka"]["connection"] = "elsewhere"
    with pytest.raises(SpecError, match="Kafka connection 'elsewhere' does not exist"):
        lab.start(document)


def test_a_join_that_makes_two_rows_of_one_record(lab: Any) -> None:
    topic, file = lab.topic(), Path(lab.folder) / "names.csv"
    file.write_text("n,name\n1,one\n2,two\n2,TWO\n")
    lab.produce(topic, [{"n": 1}, {"n": 2}])
    document = lab.spec(
        topic,
        reference={"names": {"csv": str(file), "columns": "n INT, name STRING"}},
        transform={"sql": "SELECT source.*, name FROM source JOIN names USING (n)"},
    )
    error = lab.fail(document)
    assert isinstance(error, SpecError)
    assert "_kafka_offset=1 comes out 2 times" in error.why
    assert lab.rows() == []


def test_bad_rows_without_a_quarantine_stop_the_stream(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}, "junk"])
    document = lab.spec(topic)
    del document["quarantine"]
    error = lab.fail(document)
    assert isinstance(error, SpecError)
    assert "no quarantine table configured" in error.what
    assert "not one JSON object" in error.why
    assert lab.rows() == []


def test_a_foreign_rollback_blocks_with_the_lost_range(lab: Any) -> None:
    topic = lab.topic()
    document = lab.spec(topic)
    lab.produce(topic, [{"n": 0}])  # an empty topic may begin with a batch without records
    running = lab.start(document)
    lab.until("the first batch", lambda: sum(done.consumed for done in lab.done) == 1)
    for n in (1, 2):
        lab.land(topic, {"n": n})
    assert running.stop(60)
    first = lab.spark.sql(f"SELECT snapshot_id FROM lake.{lab.namespace}.t.history ORDER BY made_current_at").first()[0]
    lab.spark.sql(f"CALL lake.system.rollback_to_snapshot('{lab.namespace}.t', {first})")
    with pytest.raises(Blocked) as raised:
        lab.start(document)
    assert raised.value.reason == "rolled-back"
    assert "seq 2 to 3" in str(raised.value)
    assert raised.value.next


def test_a_lost_checkpoint_and_a_lost_identity_block(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}])
    document = lab.spec(topic)
    lab.run(document, 1)
    checkpoint = Path(lab.wanted(document).checkpoint)
    kept = checkpoint.with_name("copy")
    shutil.copytree(checkpoint, kept)
    (checkpoint / "metadata").unlink()
    with pytest.raises(Blocked) as raised:
        lab.start(document)
    assert (raised.value.reason, str(checkpoint) in raised.value.why) == ("checkpoint-missing", True)
    shutil.rmtree(checkpoint)
    with pytest.raises(Blocked) as raised:
        lab.start(document)
    assert raised.value.reason == "checkpoint-missing"
    shutil.move(kept, checkpoint)
    lab.produce(topic, [{"n": 2}])
    lab.run(document, 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2]


def test_a_sink_without_a_position_does_not_write_without_its_lease(lab: Any) -> None:
    topic, alerts = lab.topic(), lab.topic()
    lab.produce(topic, [{"n": 1}])
    asked: list[str] = []

    def lapsed(stream: str) -> None:
        asked.append(stream)
        raise DependencyDown("no lease")

    lab.leased = lapsed
    running = lab.start(lab.spec(topic, sink={"kafka": {"topic": alerts}}))
    lab.until("a try to write", lambda: asked)
    assert running.gate.running_s is not None, "the batch waits for its lease"
    running.kill()
    assert lab.done == []
    assert running.failure() is None, "being stopped while waiting is no failure"


def test_a_call_in_the_jvm_that_a_stop_breaks_off_is_no_failure(lab: Any) -> None:
    topic, alerts = lab.topic(), lab.topic()
    lab.produce(topic, [{"n": 1}])
    asked: list[str] = []

    def asleep(stream: str) -> None:
        asked.append(stream)
        lab.spark._jvm.java.lang.Thread.sleep(600_000)

    lab.leased = asleep
    running = lab.start(lab.spec(topic, sink={"kafka": {"topic": alerts}}))
    lab.until("the batch is in the JVM", lambda: asked)
    running.kill()
    assert "InterruptedException" in str(running.function.failure), "Python was told of it"
    assert running.failure() is None
