"""A Delta table maintained by the Connect server while a stream of another process lands in it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep

import pytest
from delta_rig import ROWS, Rig
from inside_rewrite import inside

from lakeward.connectors.delta import state
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.maintain import maintain_table


@pytest.fixture
def rig(spark, lake, site: MaintenanceContext) -> Rig:
    return Rig(spark, lake, f"maintained.d_{uuid.uuid4().hex[:8]}").create(("kind",))


@contextmanager
def landing(rig: Rig, batch: int) -> Iterator[list[int]]:
    """Lands batch after batch from `batch` on while the block runs; the list holds those landed."""
    landed: list[int] = []
    stop = threading.Event()
    session = rig.spark.newSession()

    def work() -> None:
        writer = rig.writer(session)
        while not stop.is_set():
            rig.land(batch + len(landed), writer)
            landed.append(batch + len(landed))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield landed
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.campaign(
    held_by="tests/spark/connectors/delta/test_writer.py::"
    "test_two_writers_land_each_batch_once_while_the_table_is_maintained"
)
@pytest.mark.timeout(600)  # two JVMs start for it
def test_small_files_become_large_ones_while_a_stream_lands_and_what_is_left_is_vacuumed(
    rig: Rig, site: MaintenanceContext
) -> None:
    writer = rig.writer()
    for batch in range(4):
        rig.land(batch, writer)
    rig.sql("INSERT INTO {t} VALUES ('t', 0, -1, NULL)")  # a partition of its own, which is not due
    seen = run.observe(site.runtime, site.project, [rig.table])
    (health,) = seen["tables"]
    assert (seen["due"], seen["errors"]) == ([rig.table], {})
    assert (health["format"], health["files"], health["partitions"], health["records"]) == ("delta", 9, 3, 17)

    with landing(rig, 4) as landed:
        while len(landed) < 1:
            sleep(0.05)
        (done,) = run.maintain(site.runtime, site.project, rig.table, ["compact"])["actions"]

    assert (done["result"], done["verified"]) == ("done", True), done["why"]
    assert done["after"]["files_taken"] >= 8 and done["after"]["files_given"] == 2
    assert "OPTIMIZE" in rig.history()
    assert rig.values() == [-1, *range(ROWS * (4 + len(landed)))], "every row once, whoever committed first"
    assert rig.position().seq == 4 + len(landed)

    (gone,) = run.maintain(site.runtime, site.project, rig.table, ["expire"])["actions"]
    assert (gone["result"], gone["verified"]) == ("done", True), gone["why"]
    assert gone["after"]["files_deleted"] >= 8
    assert rig.values() == [-1, *range(ROWS * (4 + len(landed)))]
    now = state.read(rig.folder)
    assert now is not None
    assert sum(each.rows or 0 for each in now.files.values()) == ROWS * (4 + len(landed)) + 1
    rig.land(4 + len(landed))


@pytest.mark.timeout(600)  # two JVMs start for it
@pytest.mark.parametrize("mode", ["id", pytest.param("name", marks=pytest.mark.campaign)])
def test_a_table_with_renamed_columns_is_compacted_and_vacuumed(
    spark, lake, site: MaintenanceContext, mode: str
) -> None:
    rig = Rig(spark, lake, f"maintained.d_{uuid.uuid4().hex[:8]}")
    rig.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.maintained")
    properties = f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
    rig.sql(f"CREATE TABLE {{t}} (_kafka_offset BIGINT, `a kind` STRING) USING delta PARTITIONED BY (`a kind`) "
            f"LOCATION '{rig.folder}' {properties}")  # fmt: skip
    for batch in range(4):
        rig.sql(f"INSERT INTO {{t}} SELECT id + {batch * ROWS}, concat('k', id % 2) FROM range({ROWS})")
    rig.sql("ALTER TABLE {t} RENAME COLUMN `a kind` TO sort")
    seen = run.observe(site.runtime, site.project, [rig.table])
    assert (seen["due"], seen["errors"]) == ([rig.table], {})
    (done,) = run.maintain(site.runtime, site.project, rig.table, ["compact"])["actions"]
    assert (done["result"], done["verified"], done["after"]["files_given"]) == ("done", True, 2), done["why"]
    (gone,) = run.maintain(site.runtime, site.project, rig.table, ["expire"])["actions"]
    assert (gone["result"], gone["verified"]) == ("done", True), gone["why"]
    now = state.read(rig.folder)
    assert now is not None and {each.partition["sort"] for each in now.files.values()} == {"k0", "k1"}
    assert rig.values() == list(range(ROWS * 4))


@pytest.mark.timeout(600)  # two JVMs start for it
def test_rows_that_another_writer_deletes_inside_an_optimize_stay_deleted_and_it_is_tried_again(
    rig: Rig, site: MaintenanceContext
) -> None:
    writer = rig.writer()
    for batch in range(4):
        rig.land(batch, writer)
    wanted = rig.values()[1:]
    engine = inside(
        site.runtime,
        rig.folder,
        lambda: len(list(rig.folder.glob("_delta_log/*.json"))),
        lambda: rig.sql(f"DELETE FROM {{t}} WHERE _kafka_offset = {rig.values()[0]}"),
    )
    (done,) = maintain_table(site, rig.table, ["compact"], engine=engine)["actions"]
    assert (done["result"], done["verified"]) == ("done", True), done["why"]
    assert rig.values() == wanted
