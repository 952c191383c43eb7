"""docs/how-to/adopt-a-lake.md: its SQL is taken from the page, its commands are made as operations."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import metastore
import object_store
import pytest
import reference_rest
from assumed_role import BUCKET

from lakeward.cli.streams.audit import audit
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.platform.runtime import Lake
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends.local import LocalBackend

pytestmark = pytest.mark.timeout(900)  # a bound for a hang; a busy machine may need minutes
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "adopt-a-lake.md"
NATIVE = Path(__file__).parents[1] / "support" / "native_stream.py"


def statements() -> list[str]:
    """The SQL of the page, in order."""
    return re.findall(r"```sql\n(.+?)\n```", PAGE.read_text(), re.DOTALL)


def audited(world: Any, document: dict[str, Any]) -> dict[str, Any]:
    return dict(audit(world.runtime, StreamSpec.model_validate({"owner": "tests", **document})))


def native(world: Any, topic: str, table: str, checkpoint: str, rows: int) -> None:
    """The job of somebody else lands all records, and is ended between two batches."""
    launch = world.launch()  # makes the file of a launch; no stream runs in it yet
    assert launch.exit() == 0
    told = {"topic": topic, "table": table, "brokers": world.kafka.bootstrap, "columns": "n BIGINT, s STRING",
            "checkpoint": checkpoint, "create": True}  # fmt: skip
    (launch.launch.folder / "native.json").write_text(json.dumps(told))
    with (launch.launch.folder / "native.log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, str(NATIVE), str(launch.launch.folder / "launch.json")], stdout=log, stderr=log
        )
    try:
        world.wait_for("its rows", lambda: len(world.rows(table)) == rows)
        ended = Path(checkpoint, "commits")
        begun = ended.with_name("offsets")
        world.wait_for("its end", lambda: {each.name for each in begun.glob("[0-9]*")} == {
            each.name for each in ended.glob("[0-9]*")})  # fmt: skip
    finally:
        job.kill()
        job.wait()


@pytest.mark.campaign(held_by="tests/spark/driver/test_moving.py::test_a_native_query_is_taken_over_where_it_stopped")
def test_a_job_on_a_rest_catalog_is_taken_over_without_a_row_lost_or_doubled(
    world: Any, simple: Callable[..., Any], tmp_path: Path
) -> None:
    with object_store.running(tmp_path / "weed", catalog=True) as weed:
        lake = Lake(warehouse="s3://lake", store=weed.store, properties=weed.rest, login=weed.log_in())
        world.runtime = world.runtime.model_copy(update={"lake": lake})
        topic, table, old = world.kafka.create_topic(), f"{world.name}.orders", str(tmp_path / "old")
        document = simple(f"{world.name}_orders", topic, table, lineage="rows")
        stream = world.deploy(document, desired="stopped")
        world.numbers(topic, range(150))
        native(world, topic, table, old, 150)

        nothing = LocalBackend(world.runtime.drivers, wrapper=("/bin/true",))
        operator = Runner(world.connect, world.runtime, author="ann", holder="a test", backend=nothing)
        done = operator.run(Request(StreamOperation.IMPORT, stream, folder=old))
        assert done.data["equality"].startswith("proved: all 150 records")
        assert f"lakeward.stream.{stream}" in world.catalog().load_table(table).refs(), "the fence"

        world.desire(stream, "running")
        world.forget_leases()
        driver = world.launch()
        world.numbers(topic, range(150, 200))
        world.wait_landed(table, stream, 200)
        assert driver.terminate() == 0, driver.said()
        assert sorted(row["n"] for row in world.rows(table)) == list(range(200))
        found = audited(world, document)
        assert [found[each] for each in ("consumed", "missing", "duplicates")] == [200, 0, 0], found


@contextmanager
def lakes(kinds: str, world: Any, postgres: Any, folder: Path) -> Iterator[tuple[Lake, Lake]]:
    """The old catalog and the new one. Where one is Iceberg's own REST handlers, the files are on its object store, and
    the embedded one has a connection to it."""
    embedded = world.runtime.lake
    if kinds == "embedded to hive":
        name = postgres.create_database()
        with metastore.running(folder / "hive", metastore.on_postgres(postgres, name, folder / "db.json")) as hive:
            yield embedded, Lake(warehouse=str(hive.warehouse), properties=hive.properties)
        postgres.drop_database(name)
        return
    with reference_rest.running(folder / "reference") as rest:
        on_store = {"warehouse": f"s3://{BUCKET}/{world.name}", "store": rest.connect()}
        both = embedded.model_copy(update=on_store), rest.lake
        yield both if kinds == "embedded to rest" else (both[1], both[0])


@pytest.mark.campaign(held_by="tests/unit/tables/test_hive_catalog.py::test_of_two_commits_on_one_base_one_is_taken")
@pytest.mark.parametrize("kinds", ["embedded to hive", "embedded to rest", "rest to embedded"])
def test_tables_move_to_another_catalog_with_their_positions(
    world: Any, postgres: Any, simple: Callable[..., Any], tmp_path: Path, kinds: str
) -> None:
    with lakes(kinds, world, postgres, tmp_path) as (old, new):
        moved(world, simple, old, new)


def moved(world: Any, simple: Callable[..., Any], old: Lake, new: Lake) -> None:
    """Move a table with a stream by the page's statements."""
    world.runtime = world.runtime.model_copy(update={"lake": old})
    newest, counted, create, register, compared, properties = statements()
    topic, table = world.kafka.create_topic(), f"{world.name}.orders"
    document = simple(f"{world.name}_orders", topic, table, lineage="rows")
    stream = world.deploy(document)

    def put(text: str) -> str:
        """A statement of the page, on this table."""
        text = text.replace("prod.", "lake.").replace("sales.orders", table).replace("lake.sales", f"lake.{world.name}")
        return text.replace("lakeward.stream.orders", f"lakeward.stream.{stream}")

    driver = world.launch()
    world.numbers(topic, range(50))
    world.wait_landed(table, stream, 50)
    assert driver.terminate() == 0, driver.said()
    world.catalog().load_table(table).manage_snapshots().create_tag(
        world.catalog().load_table(table).current_snapshot().snapshot_id, "mine"
    ).commit()
    said = world.lake_sql(put(newest), put(counted))
    file = re.search(r"file='([^']+)'", said)
    assert file is not None and "=50" in said, said

    world.runtime = world.runtime.model_copy(update={"lake": new})
    world.desire(stream, "stopped")
    world.forget_leases()
    assert world.launch().exit() == 0  # has the file of a launch in the new catalog
    world.desire(stream, "running")
    said = world.lake_sql(put(create), put(register).replace("FILE", file[1]), put(compared), put(properties))
    assert "=50" in said and f"lakeward.stream.{stream}.position" in said, said
    assert {"main", "mine"} <= set(world.catalog().load_table(table).refs())
    world.forget_leases()
    driver = world.launch()
    world.numbers(topic, range(50, 80))
    world.wait_landed(table, stream, 80)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(80))
    found = audited(world, document)
    assert [found[each] for each in ("consumed", "missing", "duplicates")] == [80, 0, 0], found


def test_the_page_has_the_statements_of_a_move_in_order() -> None:
    words = ["metadata_log_entries", "count(*)", "CREATE NAMESPACE", "register_table", "count(*)", "SHOW TBLPROPERTIES"]
    assert [word for word, text in zip(words, statements(), strict=True) if word not in text] == []
