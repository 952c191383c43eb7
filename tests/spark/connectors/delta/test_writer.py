"""Landing exactly once in Delta, on real Spark and real Delta logs; the batches are planned by the tests."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lakeward.connectors.delta import log, place, table
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.connectors.exact import audit as counting
from lakeward.connectors.exact.batch import Counted, RunningBatch
from lakeward.connectors.exact.position import Position, key, parse
from lakeward.connectors.exact.writer import Landed
from lakeward.errors import Blocked, Fenced, SpecError, Transient
from lakeward.runtime import Lake
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "_kafka_topic STRING, _kafka_partition INT, _kafka_offset BIGINT, kind STRING"
ROWS = 4


@dataclass
class Planned(DeltaWriter):
    """A writer whose batch is planned by the test: two of them can hold the very same batch."""

    query: str = "q"
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)

    def running(self, batch_id: int) -> RunningBatch:
        start, end = self.bounds.get(batch_id, (ROWS * batch_id, ROWS * (batch_id + 1)))
        return RunningBatch(self.query, batch_id, {"source": _at(start)}, {"source": _at(end)}, {"t": "id-1"})


def _at(offset: int) -> str:
    return f'{{"t":{{"0":{offset}}}}}'


@dataclass
class Rig:
    """One table and its stream `flights`."""

    spark: SparkSession
    lake: Lake
    table: str

    @property
    def folder(self) -> Path:
        return place.folder_of(self.lake, self.table)

    def create(self, partition_by: tuple[str, ...] = ()) -> Rig:
        table.create(self.spark, self.lake, self.table, self.spark.createDataFrame([], SCHEMA).schema, partition_by)
        return self

    def writer(self, session: SparkSession | None = None, **more: Any) -> Planned:
        """A fresh one, as every start of a query has."""
        own = session or self.spark
        return Planned(own, "flights", self.table, "none", stateful=False, folder=self.folder, **more)

    def rows(self, start: int, end: int, session: SparkSession | None = None) -> DataFrame:
        columns = ("'t' _kafka_topic", "0 _kafka_partition", "id _kafka_offset", "concat('k', id % 2) kind")
        return (session or self.spark).range(start, end, numPartitions=1).selectExpr(*columns)

    def land(self, batch: int, writer: Planned | None = None) -> Landed:
        writer = writer or self.writer()
        bounds = writer.bounds.get(batch, (ROWS * batch, ROWS * (batch + 1)))
        return writer.land(self.rows(*bounds, writer.session), batch)

    def sql(self, statement: str) -> list[Any]:
        """`{t}` is the table's name in Spark."""
        return self.spark.sql(statement.format(t=f"spark_catalog.{self.table}")).collect()

    def values(self) -> list[int]:
        return sorted(row[0] for row in self.sql("SELECT _kafka_offset FROM {t}"))

    def position(self) -> Position:
        """As it stands in the table's own log, read without Spark."""
        found = log.read(self.folder)
        assert found is not None
        return parse(found.domains[key("flights")], "flights", self.table)

    def version(self) -> int:
        found = log.read(self.folder)
        assert found is not None
        return found.version

    def forge(self, number: int, operation: str, **parameters: Any) -> None:
        """A commit as another process writes it, over whatever is there."""
        for old in (self.folder / log.LOG).glob(f"*{number:020d}*crc"):
            old.unlink()
        info = {"timestamp": 1, "operation": operation, "operationParameters": parameters}
        text = json.dumps({"commitInfo": info}, separators=(",", ":"))
        (self.folder / log.LOG / f"{number:020d}.json").write_text(text + "\n")

    def history(self) -> list[str]:
        return [row["operation"] for row in self.sql("DESCRIBE HISTORY {t}")]


@pytest.fixture
def rig(spark: SparkSession, lake: Lake) -> Iterator[Rig]:
    yield Rig(spark, lake, f"ns_{uuid4().hex[:8]}.flights").create()


def test_rows_and_position_are_one_commit_that_says_whose_it_is(rig: Rig) -> None:
    landed = [rig.land(0), rig.land(1)]

    assert rig.values() == list(range(2 * ROWS))
    assert rig.history() == ["STREAMING UPDATE", "STREAMING UPDATE", "CREATE TABLE"], "one commit a batch"
    position = rig.position()
    assert position == landed[-1].position
    assert (position.seq, position.batch, position.snapshot, position.snapshot_seq) == (2, 1, 2, 2)
    assert position.begin == {"source": _at(0)}
    assert position.totals.landed == 2 * ROWS
    commit = log.commit(rig.folder, 2)
    assert commit is not None
    assert commit.attempt == position.attempt
    assert [each.snapshot for each in landed] == [1, 2]


def test_a_batch_that_runs_again_lands_once(rig: Rig) -> None:
    rig.land(0)
    rig.land(1)

    assert rig.land(1).already
    assert [rig.land(2).seq] == [3]
    assert rig.values() == list(range(3 * ROWS))


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


@pytest.mark.timeout(600)
def test_two_writers_land_each_batch_once_while_the_table_is_maintained(rig: Rig) -> None:
    """A driver and its zombie hold the same batches; sleeps fall between check, staging and publication."""
    seqs = 6
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
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
        while not ended.wait(0.5):
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


def test_a_driver_whose_position_was_moved_is_fenced(rig: Rig) -> None:
    ours = rig.writer()
    rig.land(0, ours)
    rig.land(1)

    with pytest.raises(Fenced):
        rig.land(1, ours)

    assert rig.values() == list(range(2 * ROWS))


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
            _maintain(rig)

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


def test_a_table_that_never_stops_changing_ends_in_contention(rig: Rig) -> None:
    turns = iter(range(1000))

    def interfere() -> None:
        rig.spark.sql(f"ALTER TABLE delta.`{rig.folder}` SET TBLPROPERTIES ('turn' = '{next(turns)}')")

    with (
        failpoints.on("before-publish", interfere),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(Transient, match="contention"),
    ):
        patch.setattr("lakeward.connectors.exact.writer.ATTEMPTS", 2)
        rig.land(0)

    assert rig.values() == []
    rig.land(0)
    assert rig.values() == list(range(ROWS))


def test_a_restore_behind_our_back_blocks_until_it_is_taken_back(rig: Rig) -> None:
    for batch in range(3):
        rig.land(batch)
    rig.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    assert rig.values() == list(range(ROWS))
    assert rig.position().seq == 3, "the position does not go back with the rows: that is why it is looked for"

    with pytest.raises(Blocked) as blocked:
        rig.land(3)

    assert blocked.value.reason == "rolled-back"
    assert "seq 2 to 3" in blocked.value.why
    assert "TO VERSION AS OF 3" in blocked.value.next
    rig.forge(5, "RESTORE", version=3)
    assert rig.land(3).seq == 4


def test_a_restore_between_check_and_commit_is_seen(rig: Rig) -> None:
    rig.land(0)
    rig.land(1)

    def restore() -> None:
        rig.forge(3, "RESTORE", version=1)

    with failpoints.on("after-stage", restore), pytest.raises(Blocked) as blocked:
        rig.land(2)

    assert blocked.value.reason == "rolled-back"


def test_a_replaced_table_blocks(rig: Rig) -> None:
    rig.land(0)
    rig.sql(f"CREATE OR REPLACE TABLE {{t}} ({SCHEMA}) USING delta")

    with pytest.raises(Blocked) as blocked:
        rig.land(1)

    assert blocked.value.reason == "table-replaced"
    assert rig.values() == []


def test_a_table_that_cannot_keep_a_position_is_refused_and_the_advice_helps(rig: Rig) -> None:
    name = rig.table.replace("flights", "plain")
    plain = Rig(rig.spark, rig.lake, name)
    rig.spark.sql(f"CREATE TABLE delta.`{plain.folder}` ({SCHEMA}) USING delta")
    place.register(rig.spark, rig.lake, name)

    with pytest.raises(Blocked) as blocked:
        plain.land(0)

    assert blocked.value.reason == "no-domains"
    plain.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')")
    plain.land(0)
    assert plain.values() == list(range(ROWS))


def test_a_commit_written_over_by_another_process_is_landed_again(rig: Rig) -> None:
    """A local file system lets two processes write one version; ours is looked for right after it was written."""
    rig.land(0)
    over = [1]

    def overwrite() -> None:
        if over:
            over.pop()
            rig.forge(2, "OPTIMIZE")

    with failpoints.on("after-publish", overwrite):
        landed = rig.land(1)

    assert (landed.seq, landed.snapshot) == (2, 3)
    assert [row[0] for row in rig.spark.newSession().read.format("delta").load(str(rig.folder)).groupBy().count()
            .collect()] == [2 * ROWS]  # fmt: skip


def test_a_commit_written_over_later_blocks_instead_of_losing_rows(rig: Rig) -> None:
    ours = rig.writer()
    rig.land(0, ours)
    rig.land(1, ours)
    rig.forge(2, "OPTIMIZE")

    with pytest.raises(Blocked):
        rig.land(2, ours)


def test_a_batch_without_rows_is_a_commit_only_if_it_advances(rig: Rig) -> None:
    rig.land(0)
    still = rig.writer(bounds={1: (ROWS, ROWS)})
    assert [(each.written, each.seq) for each in [rig.land(1, still)]] == [(False, 1)]
    assert rig.version() == 1

    ahead = rig.writer()
    landed = ahead.land(rig.rows(0, 0), 1, counted=Counted(consumed=ROWS))
    assert (landed.written, landed.seq, landed.counts.filtered) == (True, 2, ROWS)
    assert rig.position().end == {"source": _at(2 * ROWS)}
    assert rig.values() == list(range(ROWS))


def test_an_older_checkpoint_and_a_second_one_block(rig: Rig) -> None:
    for batch in range(3):
        rig.land(batch)
    reasons = []
    for writer, batch in (
        (rig.writer(), 1),
        (rig.writer(query="other"), 0),
        (rig.writer(bounds={3: (4 * ROWS, 5 * ROWS)}), 3),
        (rig.writer(bounds={2: (2 * ROWS, 4 * ROWS)}), 2),
    ):
        with pytest.raises(Blocked) as blocked:
            rig.land(batch, writer)
        reasons.append(blocked.value.reason)
    assert reasons == ["older-checkpoint", "overlap", "gap", "diverged"]
    assert rig.values() == list(range(3 * ROWS))


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
    writer = parted.writer()
    for batch in range(11):  # Delta writes a checkpoint of its log at version 10
        parted.land(batch, writer)
    assert list((parted.folder / log.LOG).glob("*.checkpoint.parquet"))
    for name in (parted.folder / log.LOG).glob("0000000000000000000[0-5].json"):
        name.unlink()
    parted.sql("DELETE FROM {t} WHERE _kafka_offset = 6")
    parted.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _kafka_offset IN (9, 10)")

    found = log.read(parted.folder)
    assert found is not None
    position = parse(found.domains[key("flights")], "flights", parted.table)
    result = counting.audit(log.scan(found), "flights", position)

    assert (result.landed, result.missing, result.duplicates, result.beyond) == (11 * ROWS - 1, 1, 2, 0)
    assert result.partitions[0].gaps == ((6, 7),)
    assert parted.land(11).seq == 12, "the log behind the position may be gone"


def _maintain(rig: Rig) -> None:
    """The tightest maintenance there is: everything into one file, then every file gone that no version needs now."""
    unsafe = "spark.databricks.delta.retentionDurationCheck.enabled"
    session = rig.spark.newSession()
    session.conf.set(unsafe, "false")
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # VACUUM lists by 10,000 tasks
    session.sql(f"OPTIMIZE delta.`{rig.folder}`").collect()
    session.sql(f"VACUUM delta.`{rig.folder}` RETAIN 0 HOURS").collect()
