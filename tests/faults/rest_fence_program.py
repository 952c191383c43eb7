"""Races for a position in a real Iceberg REST catalog. Prints what each race left, as JSON.

    [LAKEWARD_LOST_ANSWERS=60] python rest_fence_program.py FOLDER seaweedfs|handlers [--unfenced]

`--unfenced` takes the stream's tag out of every commit: the races must then find what the tag prevents.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import interpretation
import lossy_catalog
import rest_servers

from lakeward import jars
from lakeward.connectors.columns import up_casts
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position, key, parse
from lakeward.connectors.iceberg import catalog as addresses
from lakeward.connectors.iceberg import evolve, fence, jvm, position_store, publish, rollback, table
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.connectors.schema_evolution import compare
from lakeward.engine.session import BATCH_CONF
from lakeward.jars.java import ROOM_FOR_CLASSES
from lakeward.platform.errors import Fenced, LakewardError, Transient
from lakeward.platform.runtime import CATALOG, Lake
from lakeward.spec.model.driver_conf import QUICK
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from lossy_catalog import LossyCatalog
    from pyspark.sql import SparkSession

ROWS, SEQS, STREAM = 4, 4, "flights"
SCHEMA = "_kafka_topic STRING, _kafka_partition INT, _kafka_offset BIGINT, value STRING"


@dataclass
class Planned(IcebergWriter):
    """A writer whose batch is planned here: two of them can hold the very same batch."""

    def running(self, batch_id: int) -> RunningBatch:
        return RunningBatch("q", batch_id, {"source": str(ROWS * batch_id)}, {"source": str(ROWS * (batch_id + 1))})


class Races:
    def __init__(self, spark: SparkSession, lake: Lake, proxy: LossyCatalog, trials: int) -> None:
        from pyiceberg.catalog import load_catalog

        self.spark, self.proxy, self.trials = spark, proxy, trials
        self.catalog = load_catalog(CATALOG, **addresses.pyiceberg_properties(lake))
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.races")
        self.table = ""

    def create(self, name: str) -> None:
        self.table = f"races.{name}"
        table.create(self.spark, self.table, self.spark.createDataFrame([], SCHEMA).schema, ())

    def land(self, batch: int, session: SparkSession | None = None) -> str:
        """Land a batch as a driver of its own; the outcome, or the block's reason."""
        own = session or self.spark.newSession()
        rows = [("t", 0, value, str(value)) for value in range(ROWS * batch, ROWS * (batch + 1))]
        writer = Planned(own, STREAM, self.table, "none", stateful=False)
        while True:
            try:
                return "already" if writer.land(own.createDataFrame(rows, SCHEMA), batch).already else "landed"
            except Transient:
                continue
            except LakewardError as error:
                return getattr(error, "reason", "") or type(error).__name__

    def metadata(self) -> Any:
        return jvm.metadata_of(jvm.load(self.spark, self.table))

    def position(self) -> Position:
        return parse(self.metadata().properties()[key(STREAM)], STREAM, self.table)

    def left(self, **more: Any) -> dict[str, Any]:
        """What the table has: the values sorted, and the stream's seq."""
        rows = self.spark.newSession().sql(f"SELECT value FROM {CATALOG}.{self.table}").collect()
        return {"values": sorted(int(row.value) for row in rows), "seq": self.position().seq, **more}

    def call(self, text: str) -> None:
        self.spark.newSession().sql(f"CALL {CATALOG}.system.{text}").collect()

    def once(self, point: str, act: Callable[[], None], work: Callable[[], Any]) -> Any:
        """Do `work`, and `act` when it first reaches `point`."""
        reached: list[bool] = []

        def hook() -> None:
            if not reached:
                reached.append(True)
                act()

        with failpoints.on(point, hook):
            done = work()
        assert reached, f"{point} was not reached"
        return done

    def two_writers(self) -> dict[str, Any]:
        """A driver and its zombie hold the same batches while the table is compacted and expired."""
        chance, ended = random.Random(24), threading.Event()
        outcomes: list[str] = []
        barrier = threading.Barrier(2)

        def pause() -> None:
            time.sleep(chance.uniform(0, 0.25))

        def write() -> None:
            session = self.spark.newSession()
            for batch in range(SEQS):
                barrier.wait(120)
                outcomes.append(self.land(batch, session))

        def maintain() -> None:
            while not ended.wait(0.3):
                with suppress(Exception):  # losing a race against the writers is part of it
                    self.call(f"rewrite_data_files(table => '{self.table}', options => map('rewrite-all','true'))")
                # Iceberg's own expiry compares nothing here: it may take a snapshot that was staged when it began, and
                # is main's by now. So it is called as the reference says: for what is older than the longest batch.
                before = datetime.now(UTC) - timedelta(seconds=5)
                with suppress(Exception):
                    self.call(
                        f"expire_snapshots(table => '{self.table}', older_than => TIMESTAMP '{before:%F %T}', "
                        "retain_last => 1)"
                    )

        writers = [threading.Thread(target=write) for _ in range(2)]
        keeper = threading.Thread(target=maintain)
        with failpoints.on("after-check", pause), failpoints.on("after-stage", pause):
            for thread in (keeper, *writers):
                thread.start()
            for thread in writers:
                thread.join()
            ended.set()
            keeper.join()
        return self.left(landed=outcomes.count("landed"), outcomes=sorted(set(outcomes)))

    def rolled_back(self) -> dict[str, Any]:
        """A zombie commits on a base to which main was rolled back, while a driver landed the same batch."""
        self.land(0)
        head = self.metadata().currentSnapshot().snapshotId()

        def foreign() -> None:
            self.land(1)
            self.land(2)
            self.call(f"rollback_to_snapshot('{self.table}', {head})")

        outcome = self.once("before-publish", foreign, lambda: self.land(1))
        return self.left(outcome=outcome, again=self.land(1))

    def restored(self) -> dict[str, Any]:
        """A zombie commits on a base to which a restore took main back, with the position, after a driver's batch."""
        self.land(0)
        head = self.catalog.load_table(self.table).metadata.current_snapshot_id
        back = self.position().model_copy(update={"seq": 3, "query_id": "", "batch": -1, "attempt": "restore/1"})
        late: list[str] = []

        def restore() -> None:
            stale = self.catalog.load_table(self.table)
            self.land(1)
            for loaded in (stale, self.catalog.load_table(self.table)):
                try:
                    rollback.move(loaded, head, {key(STREAM): back.to_json()}, {})
                    late.append("restored")
                except Fenced:
                    late.append("Fenced")

        outcome = self.once("before-publish", restore, lambda: self.land(1))
        return self.left(outcome=outcome, restores=late, again=self.land(1))

    def moved(self, step: str, write: Callable[[Position, str | None], Any]) -> dict[str, Any]:
        """A batch lands between the reading and the commit of a position that a person moves."""
        self.land(0)
        raw = self.metadata().properties()[key(STREAM)]
        new = self.position().model_copy(update={"seq": 2, "query_id": "", "batch": -1, "attempt": "reset/1"})

        def act() -> str:
            try:
                write(new, raw)
            except Exception as error:  # noqa: BLE001  # its kind is the outcome
                return jvm.trouble(error).value if hasattr(error, "java_exception") else type(error).__name__
            return "moved"

        outcome = self.once(step, lambda: self.land(1), act)
        self.land(1)  # as the driver that is started next
        return self.left(outcome=outcome)

    def moved_in_a_driver(self) -> dict[str, Any]:
        def write(new: Position, raw: str | None) -> None:
            publish.write_position(self.spark, self.table, STREAM, new, raw)

        return self.moved("before-publish", write)

    def moved_without_a_driver(self) -> dict[str, Any]:
        def write(new: Position, raw: str | None) -> None:
            position_store.write_position(self.catalog, self.table, STREAM, new, raw)

        return self.moved("before-position", write)

    def fenced_by_a_move(self) -> dict[str, Any]:
        """A position that a person moves while a driver commits a batch: the batch lands after it, or not at all."""
        self.land(0)
        raw = self.metadata().properties()[key(STREAM)]
        new = self.position().model_copy(update={"seq": 2, "query_id": "", "batch": -1, "attempt": "reset/1"})

        def move() -> None:
            position_store.write_position(self.catalog, self.table, STREAM, new, raw)

        outcome = self.once("before-publish", move, lambda: self.land(1))
        return self.left(outcome=outcome, query=self.position().query_id)

    def grown(self) -> dict[str, Any]:
        """A batch lands while its table's columns are changed with the position of a new generation."""
        self.land(0)
        metadata = self.metadata()
        state, schema = jvm.state_of(metadata, STREAM, self.table), evolve.schema_of(self.spark, metadata)
        wanted = json.loads(self.spark.createDataFrame([], f"{SCHEMA}, more STRING").schema.json())
        moved = self.position().model_copy(update={"seq": 2, "generation": 9})

        def act() -> str:
            try:
                evolve.evolve(self.spark, state, schema, compare(wanted, schema, partial(up_casts, self.spark)), moved)
            except Exception as error:  # noqa: BLE001  # its kind is the outcome
                return type(error).__name__
            return "evolved"

        outcome = self.once("before-evolve", lambda: self.land(1), act)
        self.land(1)
        return self.left(outcome=outcome, generation=self.position().generation)

    def lost_answers(self) -> dict[str, Any]:
        """The server commits, and answers 409 or 5xx, or nothing: to a staging, to a publication, or to both."""
        chance, spoiled, tries = random.Random(2), list[str](), 0  # six trials have every fault
        self.proxy.keys = []
        for batch in range(self.trials):
            plan = [chance.choice(("", *lossy_catalog.FAULTS)) for _ in range(3)]
            if not any(plan[:2]):
                plan[batch % 2] = lossy_catalog.FAULTS[batch % len(lossy_catalog.FAULTS)]
            self.proxy.spoil(*plan)
            for _ in range(6):
                tries += 1
                if self.land(batch) in ("landed", "already"):
                    break
            spoiled += self.proxy.done
            self.proxy.spoil()
        keys = self.proxy.keys
        repeated = len(keys) - len(set(keys)) if None not in keys else None
        found = {"trials": self.trials, "spoiled": len(spoiled), "kinds": sorted(set(spoiled)), "tries": tries}
        return self.left(**found, keys=repeated)

    def moved_and_called_refused(self) -> dict[str, Any]:
        """The server moves a position for a person, and answers 409."""
        self.land(0)
        raw = self.metadata().properties()[key(STREAM)]
        new = self.position().model_copy(update={"seq": 2, "query_id": "", "batch": -1, "attempt": "reset/1"})
        self.proxy.spoil("409")
        moved = position_store.write_position(self.catalog, self.table, STREAM, new, raw)
        return self.left(spoiled=self.proxy.done, there=moved == self.position(), outcome=self.land(1))

    def staging_called_refused(self) -> dict[str, Any]:
        """The server commits a staged snapshot and answers 409: Iceberg then deletes the snapshot's data files."""
        self.spark.sql(f"ALTER TABLE {CATALOG}.{self.table} SET TBLPROPERTIES ('commit.retry.num-retries'='0')")
        self.proxy.spoil("409")
        outcome = self.land(0)
        return self.left(spoiled=self.proxy.done, outcome=outcome)


def property_only(_: Any, loaded: Any, __: str) -> fence.EmptySnapshot:
    """A commit that compares the table's uuid only, as a REST catalog takes it for properties."""
    from pyiceberg.table.update import AssertTableUUID

    head = loaded.metadata.current_snapshot()
    uuid = AssertTableUUID(uuid=loaded.metadata.table_uuid)
    return fence.EmptySnapshot(head.snapshot_id, head.sequence_number, (uuid,), ())


def no_snapshot(_: Any, loaded: Any, parent: int, __: Any) -> fence.EmptySnapshot:
    """A restore that sets main back to the snapshot itself, as a JDBC catalog takes it."""
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

    at = loaded.metadata.current_snapshot_id
    required = (
        AssertTableUUID(uuid=loaded.metadata.table_uuid),
        AssertRefSnapshotId(**{"ref": "main", "snapshot-id": at}),
    )
    back = SetSnapshotRefUpdate(**{"ref-name": "main", "type": "branch", "snapshot-id": parent})
    return fence.EmptySnapshot(parent, 0, required, (back,))


@contextmanager
def started(folder: Path, lake: Lake) -> Iterator[SparkSession]:
    """A Spark session with the catalog."""
    from pyspark.sql import SparkSession

    jars.ensure()
    os.environ |= addresses.environment(lake)
    builder = SparkSession.builder.master("local[2]").appName("races")
    for name, value in {
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars.spark_classpath()),
        # A JVM of a minute: the second compiler would never earn its cost.
        "spark.driver.extraJavaOptions": " ".join(
            ["-XX:+UseSerialGC", QUICK, ROOM_FOR_CLASSES, *jars.archive.options()]
        ),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "unused"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **interpretation.of_the_gate(),
        **BATCH_CONF,
        **addresses.spark_conf(lake),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def main(folder: Path, kind: str, unfenced: bool, trials: int) -> None:
    if unfenced:
        fence.move_tag = lambda transaction, _: transaction.currentMetadata().currentSnapshot()
        fence.empty_snapshot, fence.snapshot_on = property_only, no_snapshot
    with rest_servers.lossy(folder, kind) as (lake, proxy), started(folder, lake) as spark:
        races = Races(spark, lake, proxy, trials)
        for race in (
            races.two_writers, races.rolled_back, races.moved_in_a_driver, races.moved_without_a_driver,
            races.restored, races.fenced_by_a_move, races.grown, races.lost_answers,
            *(() if unfenced else (races.moved_and_called_refused, races.staging_called_refused)),
        ):  # fmt: skip
            races.create(race.__name__)
            print(json.dumps({"race": race.__name__, **race()}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], "--unfenced" in sys.argv, int(os.environ.get("LAKEWARD_LOST_ANSWERS", "6")))
