"""Readers of what is proven, and the pointer table, on a catalog of PyIceberg's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

from lakeward.quality.publishing import pointer
from lakeward.spec.model.suite import POINTER_OF, pointer_name


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Catalog]:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    made.create_table("n.t", pa.schema([("id", pa.int64())]), properties={"lakeward.stream.s.position": "{}"})
    yield made
    made.engine.dispose()


def append(lake: Catalog, *ids: int) -> int:
    table = lake.load_table("n.t")
    rows = pa.table({"id": ids}) if len(table.schema().fields) == 1 else pa.table({"id": ids, "more": ["x"] * len(ids)})
    table.append(rows)
    found = lake.load_table("n.t").current_snapshot()
    assert found is not None
    return found.snapshot_id


def shown(lake: Catalog) -> list[int]:
    return sorted(lake.load_table("n.t__verified").scan().to_arrow()["id"].to_pylist())


def test_duckdb_and_pyiceberg_read_the_branch_and_not_main(lake) -> None:
    import duckdb

    proven = append(lake, 1, 2)
    lake.load_table("n.t").manage_snapshots().create_branch(proven, "verified").commit()
    append(lake, 3)
    scan = lake.load_table("n.t").scan().use_ref("verified")
    assert scan.to_arrow()["id"].to_pylist() == [1, 2]
    with scan.to_duckdb("t") as connection:
        assert connection.sql("SELECT sum(id) FROM t").fetchall() == [(3,)]
    with duckdb.connect() as connection:  # batch by batch: no more in memory than DuckDB asks for
        connection.register("t", scan.to_arrow_batch_reader())
        assert connection.sql("SELECT count(*), max(id) FROM t").fetchall() == [(2, 2)]


def test_the_pointer_shows_one_snapshot_of_the_tables_own_files(lake) -> None:
    proven = append(lake, 1, 2)
    append(lake, 3)
    pointer.point(lake, "n.t", proven)
    table, main = lake.load_table(pointer_name("n.t")), lake.load_table("n.t")
    assert shown(lake) == [1, 2]
    assert [each.snapshot_id for each in table.metadata.snapshots] == [proven]
    assert table.properties[POINTER_OF] == "n.t" and table.properties["gc.enabled"] == "false"
    assert not any(key.startswith("lakeward.stream") for key in table.properties), "a position belongs to one table"
    assert table.metadata.table_uuid != main.metadata.table_uuid
    assert not table.location().startswith(main.location() + "/"), "the table's orphan removal would find it"


def test_it_moves_in_one_commit_and_back_and_takes_a_new_column_along(lake) -> None:
    first, second = append(lake, 1), append(lake, 2)
    pointer.point(lake, "n.t", first)
    uuid = lake.load_table("n.t__verified").metadata.table_uuid
    pointer.point(lake, "n.t", second)
    assert shown(lake) == [1, 2]
    assert lake.load_table("n.t__verified").metadata.table_uuid == uuid, "the entry was never away"
    with lake.load_table("n.t").update_schema() as change:
        change.add_column("more", StringType())
    third = append(lake, 3)
    pointer.point(lake, "n.t", third)
    table = lake.load_table("n.t__verified")
    assert table.scan().to_arrow().to_pylist()[0].keys() == {"id", "more"} and shown(lake) == [1, 2, 3]
    assert table.metadata.table_uuid == uuid and len(table.metadata.snapshots) == len(table.metadata.snapshot_log) == 1
    pointer.point(lake, "n.t", first)
    assert shown(lake) == [1]
    pointer.point(lake, "n.t", second)
    assert shown(lake) == [1, 2]


def test_a_table_made_again_is_shown_and_not_the_old_one(lake) -> None:
    pointer.point(lake, "n.t", append(lake, 1))
    lake.drop_table("n.t")
    lake.create_table("n.t", pa.schema([("id", pa.int64()), ("more", pa.string())]))
    pointer.point(lake, "n.t", append(lake, 7))
    assert shown(lake) == [7]
