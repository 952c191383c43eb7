"""Landing exactly once in Delta, on real Spark and real Delta logs; the batches are planned by the tests."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import seeds
from seeds import seed

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.position import key, parse
from lakeward.connectors.delta import log
from lakeward.connectors.delta.position_store import DeltaPositionStore
from lakeward.platform.errors import Fenced, SpecError, Transient
from lakeward.quality.delta.commits import Commits
from lakeward.quality.engine.custom.landed import batch_of
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    pass
from delta_rig import ROWS, Planned, Rig, at, maintain


def test_rows_and_position_are_one_commit_that_says_whose_it_is(rig: Rig) -> None:
    landed = [rig.land(0), rig.land(1)]

    assert rig.values() == list(range(2 * ROWS))
    assert rig.history() == ["STREAMING UPDATE", "STREAMING UPDATE", "CREATE TABLE"], "one commit a batch"
    position = rig.position()
    assert position == landed[-1].position
    assert (position.seq, position.batch, position.snapshot, position.snapshot_seq) == (2, 1, 2, 2)
    assert position.begin == {"source": at(0)}
    assert position.totals.landed == 2 * ROWS
    commit = log.commit(rig.folder, 2)
    assert commit is not None
    assert commit.attempt == position.attempt
    assert [each.snapshot for each in landed] == [1, 2]
    head = log.head(rig.folder)
    assert head is not None
    seen = Commits(head)[2]  # as checks see it
    assert (seen.operation, seen.added, batch_of(seen)) == ("append", ROWS, ("flights", 2))


def test_a_query_that_died_after_the_commit_finds_its_batch_at_the_next_start(rig: Rig) -> None:
    class Died(RuntimeError):
        pass

    def die() -> None:
        raise Died

    with failpoints.on("before-publish", die), pytest.raises(Died):
        rig.land(0)
    assert rig.values() == []
    with failpoints.on("after-publish", die), pytest.raises(Died):
        rig.land(0)
    assert rig.land(0).already
    assert rig.values() == list(range(ROWS))


@pytest.mark.seeded
@pytest.mark.timeout(600)
def test_two_writers_land_each_batch_once_while_the_table_is_maintained(rig: Rig) -> None:
    """A driver and its zombie hold the same batches; sleeps fall between check, staging and publication."""
    seqs = 6 if os.environ.get(seeds.VARIABLE) else 4
    chance = random.Random(seed(13))
    ended, outcomes, failures = threading.Event(), Counter[str](), list[BaseException]()
    barrier = threading.Barrier(2)

    def land_all() -> None:
        session = rig.spark.newSession()
        try:
            for batch in range(seqs):
                barrier.wait(120)
                outcomes[_raced(rig, rig.writer(session), batch)] += 1
        except BaseException as error:  # noqa: BLE001  # shown by the test, which joins the threads
            failures.append(error)
            barrier.abort()

    def optimize() -> None:
        while not ended.wait(1):
            try:
                rig.spark.newSession().sql(f"OPTIMIZE delta.`{rig.folder}`").collect()
            except Exception as error:  # noqa: BLE001  # losing a race against the writers is part of it
                outcomes[f"optimize: {type(error).__name__}"] += 1

    def pause() -> None:
        time.sleep(chance.uniform(0, 0.25))

    threads = [threading.Thread(target=land_all) for _ in range(2)] + [threading.Thread(target=optimize)]
    with failpoints.on("after-check", pause), failpoints.on("after-stage", pause):
        for thread in threads:
            thread.start()
        for thread in threads[:2]:
            thread.join()
        ended.set()
        threads[2].join()

    assert not failures, "\n".join(str(failure) for failure in failures)
    assert rig.values() == list(range(ROWS * seqs)), outcomes
    assert outcomes["landed"] == seqs, "each seq is published by exactly one of the two"
    assert (rig.position().seq, rig.position().totals.landed) == (seqs, ROWS * seqs)


def _raced(rig: Rig, writer: Planned, batch: int) -> str:
    while True:
        try:
            return "already" if rig.land(batch, writer).already else "landed"
        except Fenced:
            return "fenced"
        except Transient:
            continue


def test_a_zombie_paused_after_staging_lands_nothing(rig: Rig) -> None:
    """It wakes when its batch was landed by another, compacted, and its own files were vacuumed."""
    rig.land(0)
    zombie = rig.writer(rig.spark.newSession())

    asleep = [1]

    def meanwhile() -> None:
        if asleep:
            asleep.pop()
            rig.land(1)
            rig.land(2)
            maintain(rig)

    with failpoints.on("after-stage", meanwhile), pytest.raises(Fenced):
        rig.land(1, zombie)

    assert rig.land(2).already, "a replay is known for one whatever maintenance did"
    assert rig.values() == list(range(3 * ROWS))


def test_staged_files_that_vacuum_took_are_written_again(rig: Rig) -> None:
    rig.land(0)
    taken: list[Path] = []

    def vacuum() -> None:
        if not taken:
            found = log.read(rig.folder)
            taken.extend(file for file in rig.folder.glob("*.parquet") if found and file.name not in found.files)
            for file in taken:
                file.unlink()

    with failpoints.on("after-stage", vacuum):
        assert rig.land(1).seq == 2

    assert rig.values() == list(range(2 * ROWS))


def test_a_commit_that_comes_first_costs_no_second_write(rig: Rig) -> None:
    other = rig.writer(rig.spark.newSession())
    other.stream = "other"
    before, staged = [1], []

    def meanwhile() -> None:
        if before:
            before.pop()
            rig.land(0, other)

    with failpoints.on("before-publish", meanwhile), failpoints.on("after-check", lambda: staged.append(1)):
        landed = rig.land(0)

    assert len(staged) == 2, "one write for each stream"
    assert landed.snapshot == 2
    assert rig.values() == sorted([*range(ROWS)] * 2), "two streams land in one table"
    assert rig.position().snapshot == 2


@pytest.mark.campaign(
    held_by="tests/unit/connectors/commit_protocol/test_contract_retry.py::"
    "test_a_sink_that_never_holds_still_ends_in_contention"
)
def test_a_table_that_never_stops_changing_ends_in_contention(rig: Rig) -> None:
    turns = iter(range(1000))

    def interfere() -> None:
        rig.spark.sql(f"ALTER TABLE delta.`{rig.folder}` SET TBLPROPERTIES ('turn' = '{next(turns)}')")

    with (
        failpoints.on("before-publish", interfere),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(Transient, match="contention"),
    ):
        patch.setattr("lakeward.connectors.commit_protocol.writer.ATTEMPTS", 2)
        rig.land(0)

    assert rig.values() == []
    rig.land(0)
    assert rig.values() == list(range(ROWS))


def test_a_batch_without_rows_is_a_commit_only_if_it_advances(rig: Rig) -> None:
    rig.land(0)
    still = rig.writer(bounds={1: (ROWS, ROWS)})
    assert [(each.written, each.seq) for each in [rig.land(1, still)]] == [(False, 1)]
    assert rig.version() == 1

    ahead = rig.writer()
    landed = ahead.land(rig.rows(0, 0), 1, counted=Counted(consumed=ROWS))
    assert (landed.written, landed.seq, landed.counts.filtered) == (True, 2, ROWS)
    assert rig.position().end == {"source": at(2 * ROWS)}
    assert rig.values() == list(range(ROWS))


def test_rows_are_stored_in_the_tables_types_or_refused(rig: Rig) -> None:
    def land(columns: str) -> None:
        rig.writer().land(rig.rows(0, ROWS).selectExpr(*columns.split("; ")), 0)

    for wrong, said in (
        ("_kafka_topic; _kafka_partition; _kafka_offset; kind; 1 AS more", "not in the table: more"),
        ("_kafka_topic; _kafka_partition; _kafka_offset", "only in the table: kind"),
        ("_kafka_topic; CAST(_kafka_partition AS BIGINT) _kafka_partition; _kafka_offset; kind", "_kafka_partition is"),
    ):
        with pytest.raises(SpecError, match=said):
            land(wrong)
    land("kind; _kafka_topic; _kafka_partition; CAST(_kafka_offset AS INT) _kafka_offset")
    assert rig.values() == list(range(ROWS))


def test_the_audit_reads_the_table_without_spark_across_checkpoints_and_partitions(rig: Rig) -> None:
    parted = Rig(rig.spark, rig.lake, rig.table.replace("flights", "parted")).create(("kind", "_kafka_partition"))
    parted.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    writer, batches = parted.writer(), 4
    for batch in range(batches):  # Delta writes a checkpoint of its log at version 5
        parted.land(batch, writer)
    assert list((parted.folder / log.LOG).glob("*.checkpoint.parquet"))
    for name in (parted.folder / log.LOG).glob("0000000000000000000[0-3].json"):
        name.unlink()
    parted.sql("DELETE FROM {t} WHERE _kafka_offset = 6")
    parted.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _kafka_offset IN (9, 10)")

    found = log.read(parted.folder)
    assert found is not None
    position = parse(found.domains[key("flights")], "flights", parted.table)
    result = counting.audit(log.scan(found), "flights", position)

    assert (result.landed, result.missing, result.duplicates, result.beyond) == (batches * ROWS - 1, 1, 2, 0)
    assert result.partitions[0].gaps == ((6, 7),)
    assert parted.land(batches).seq == batches + 1, "the log behind the position may be gone"


@pytest.mark.campaign
def test_the_audit_leaves_out_the_rows_of_deletion_vectors(rig: Rig) -> None:
    rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    writer = rig.writer()
    for batch in range(2):
        rig.land(batch, writer)
    for offset in (1, ROWS + 2, ROWS + 3):  # the last one replaces a vector by another
        rig.sql(f"DELETE FROM {{t}} WHERE _kafka_offset = {offset}")

    found = log.read(rig.folder, deletion_vectors=True)
    assert found is not None
    assert len(found.vectors) == 2, "the rows were deleted by vectors, not by new files"
    position = parse(found.domains[key("flights")], "flights", rig.table)
    result = counting.audit(DeltaPositionStore(rig.folder, rig.table, "flights").scan(), "flights", position)

    assert (result.landed, result.missing, result.duplicates) == (2 * ROWS - 3, 3, 0)
    assert result.partitions[0].gaps == ((1, 2), (ROWS + 2, ROWS + 4))
