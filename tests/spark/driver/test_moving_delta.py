"""Positions that a person moved in a Delta table without Spark: a real query goes on exactly there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from moved_rig import Registry, accepted, approved, deployed

from lakeward.cli.streams.audit import audit
from lakeward.connectors.delta import location, log, rollback
from lakeward.connectors.delta.position_store import OPERATION
from lakeward.driver.recorder import Recorder
from lakeward.operations import sink_position
from lakeward.operations.request import Approval, Request, StreamOperation
from lakeward.operations.restore.restore import Restore
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Blocked, Fenced, Refused
from lakeward.registry import streams
from lakeward.spec.model.stream import StreamSpec

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def _document(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    return {**lab.spec(topic, sink={"delta": {"table": f"{lab.namespace}.t"}}), "lineage": "rows", **more}


def _rows(lab: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in lab.spark.sql(f"SELECT * FROM spark_catalog.{lab.namespace}.t").collect()]


def _offsets(lab: Any) -> list[int]:
    return sorted(row["_kafka_offset"] for row in _rows(lab))


def _operations(lab: Any) -> list[str]:
    return [row["operation"] for row in lab.spark.sql(f"DESCRIBE HISTORY spark_catalog.{lab.namespace}.t").collect()]


@contextmanager
def _listed_by_two_tasks(lab: Any) -> Iterator[None]:
    """VACUUM lists a folder by ten thousand tasks unless it is told otherwise: a hundred seconds of CPU."""
    name = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    lab.spark.conf.set(name, "2")
    try:
        yield
    finally:
        lab.spark.conf.unset(name)


def _go_on(lab: Any, wanted: Any, records: int) -> None:
    before = len(lab.done)
    running = lab.starter().start(wanted)
    lab.started.append(running)
    lab.until(f"{records} records", lambda: sum(done.consumed for done in lab.done[before:]) >= records)
    assert running.stop(60)


def _counted(lab: Any, document: dict[str, Any]) -> tuple[int, int, int, int]:
    found = audit(lab.runtime, StreamSpec.model_validate(document))
    return found["landed"], found["skipped"], found["missing"], found["duplicates"]


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_moving.py::test_a_position_in_postgresql_is_moved_by_the_same_operations"
)
def test_a_recovery_fences_a_driver_that_is_cut_off_and_the_next_one_goes_on(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    topic = lab.topic()
    document = _document(lab, topic)
    lab.produce(topic, [{"n": n, "s": "a"} for n in range(5)])
    lab.run(document, 5)
    wanted = lab.wanted(document)
    deployed(registry, document, wanted.checkpoint)
    spec = StreamSpec.model_validate(document)
    with pytest.raises(Refused, match="its sink is a Delta table"):
        sink_position.in_lake(operator, spec, "import")
    cut_off = lab.starter().start(wanted)  # has seen the position; lands nothing before it was moved
    lab.started.append(cut_off)
    stale = sink_position.of(operator, spec, "read")

    operator.run(Request(StreamOperation.RECOVER, document["id"], wait=False))

    assert stale.position is not None
    with pytest.raises(Fenced, match="moved its position"):
        stale.write(stale.position.model_copy(update={"seq": 99}))
    lab.produce(topic, [{"n": n, "s": "b"} for n in range(5, 8)])
    assert isinstance(lab.failed(cut_off), Fenced)
    lab.started.clear()
    assert len(_rows(lab)) == 5
    assert OPERATION in _operations(lab)

    shutil.rmtree(wanted.checkpoint)
    _go_on(lab, accepted(registry, document["id"], wanted), 3)
    assert _offsets(lab) == list(range(8))
    assert _counted(lab, document) == (8, 0, 0, 0)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_moving.py::test_a_position_in_postgresql_is_moved_by_the_same_operations"
)
def test_a_reset_back_reads_again_just_what_it_said(lab: Any, registry: Registry, operator: Runner) -> None:
    topic = lab.topic()
    document = _document(lab, topic)
    lab.produce(topic, [{"n": n, "s": "a"} for n in range(3)])
    lab.run(document, 3)
    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    with pytest.raises(Blocked, match="lakeward streams recover"):
        lab.starter().start(wanted)
    deployed(registry, document, wanted.checkpoint)
    request = Request(StreamOperation.RESET, document["id"], comment="again", to="earliest", duplicates=3, wait=False)
    planned, request = approved(operator, request)
    assert (planned.data["read_again"], planned.data["duplicates"]) == (3, 3)

    operator.run(request)

    found = sink_position.of(operator, StreamSpec.model_validate(document), "read")
    assert found.position is not None
    assert found.position.seq == 2
    _go_on(lab, accepted(registry, document["id"], wanted), 3)
    assert _offsets(lab) == [0, 0, 1, 1, 2, 2]


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_moving.py::"
    "test_a_poisoned_batch_that_was_skipped_is_passed_and_the_audit_accounts_for_it"
)
def test_a_poisoned_batch_that_was_skipped_is_passed_and_the_audit_accounts_for_it(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    topic = lab.topic()
    document = _document(lab, topic, transform={"sql": "SELECT *, 12 / n AS share FROM source"})
    lab.produce(topic, [{"n": n} for n in (1, 2, 3)])
    lab.run(document, 3)
    lab.produce(topic, [{"n": 0}])
    assert "DIVIDE_BY_ZERO" in str(lab.fail(document))
    wanted = lab.wanted(document)
    failed = max(int(file.name) for file in Path(wanted.checkpoint, "offsets").iterdir() if file.name.isdigit())
    deployed(registry, document, wanted.checkpoint)
    with registry() as connection:
        streams.block(connection, document["id"], {"reason": "poison", "what": "", "next": "", "batch": failed})
    plan, request = approved(
        operator, Request(StreamOperation.SKIP_BATCH, document["id"], comment="junk", batch=failed, wait=False)
    )
    assert plan.data["skipped"] == 1
    operator.run(request)

    lab.produce(topic, [{"n": 4}])
    lab.started.clear()  # what failed is over
    _go_on(lab, accepted(registry, document["id"], wanted), 1)
    assert sorted(row["n"] for row in _rows(lab)) == [1, 2, 3, 4]
    assert _counted(lab, document) == (4, 1, 0, 0)


@pytest.mark.campaign(
    held_by="tests/unit/cli/tables/test_restore_delta.py::test_wherever_it_is_killed_the_same_command_finishes_it"
)
def test_a_restored_table_is_read_and_written_by_spark_and_its_records_land_again(
    lab: Any, registry: Registry, operator: Runner
) -> None:
    topic = lab.topic()
    document = _document(lab, topic)
    name, table = f"{lab.namespace}.t", f"spark_catalog.{lab.namespace}.t"
    lab.produce(topic, [{"n": n, "s": "a"} for n in range(3)])
    lab.run(document, 3)
    wanted = lab.wanted(document)
    deployed(registry, document, wanted.checkpoint)
    with registry() as connection:
        streams.set_desired(connection, [document["id"]], "running")
    more = "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"
    lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({more})")
    head = log.head(location.folder_of(lab.runtime.lake, name))
    assert head is not None
    before = sorted(map(str, _rows(lab)))
    lab.produce(topic, [{"n": n, "s": "b"} for n in range(3, 7)])
    lab.run(document, 4)
    lab.spark.sql(f"DELETE FROM {table} WHERE n = 0")
    assert any(add.get("deletionVector") for add in rollback.newest(head.folder).files.values())
    recorder = Recorder(registry, "d")
    for batch in lab.done:
        recorder.note_batch(batch)
    recorder.close()

    operation = Restore(operator, Request(Restore.name, name, "bad rows"), head.version)
    done = operator.run(operation.answered("", Approval("bob", operation.plan().key)))

    assert (done.data["records_before"], done.data["records_after"], len(done.data["of_nobody"])) == (6, 3, 1)
    assert sorted(map(str, _rows(lab))) == before
    assert lab.spark.sql(f"SELECT count(*) FROM {table}").first()[0] == 3, "the count that the log states"
    history = lab.spark.sql(f"DESCRIBE HISTORY {table}").collect()
    (restored,) = [row for row in history if row["operation"] == "RESTORE"]
    assert restored["operationParameters"]["version"] == str(head.version)
    assert lab.spark.sql(f"SELECT * FROM {table} VERSION AS OF {restored['version'] - 1}").count() == 6
    feed = lab.spark.read.option("readChangeFeed", "true").option("startingVersion", restored["version"])
    changed = feed.option("endingVersion", restored["version"]).table(table)
    assert sorted((row["_change_type"], row["n"]) for row in changed.collect()) == [
        ("delete", 3), ("delete", 4), ("delete", 5), ("delete", 6), ("insert", 0)
    ]  # fmt: skip

    _go_on(lab, accepted(registry, document["id"], wanted), 4)
    assert _offsets(lab) == list(range(7))
    assert _counted(lab, document) == (7, 0, 0, 0)
    lab.spark.sql(f"OPTIMIZE {table}")
    with _listed_by_two_tasks(lab):
        lab.spark.sql(f"VACUUM {table} DRY RUN").collect()
    lab.spark.sql(f"INSERT INTO {table} (n, s) VALUES (9, 'by hand')")
    assert len(_rows(lab)) == 8
