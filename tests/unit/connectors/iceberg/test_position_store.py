"""The position in an Iceberg table, through a catalog of PyIceberg; with Spark in tests/spark/connectors/iceberg."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.position_store import IcebergPositionStore, remove_position, write_position
from lakeward.platform.errors import DependencyDown, Fenced, Refused

ROWS = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db?timeout=0.1", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("n")
    catalog.create_table("n.t", ROWS.schema).append(ROWS)
    yield catalog
    catalog.close()


@pytest.fixture
def store(lake: SqlCatalog) -> IcebergPositionStore:
    return IcebergPositionStore(lake, "n.t", "flights")


def _first(store: IcebergPositionStore) -> Position:
    return store.compare_and_set(store.read(), Position.before_first(1, {}).moved("reset", "ann"))


def test_the_position_stands_on_the_head_and_moves_only_from_what_was_read(store: IcebergPositionStore) -> None:
    stale = store.read()
    first = _first(store)

    assert store.read().position == first
    assert first.snapshot == store.table.metadata.current_snapshot_id
    with pytest.raises(Fenced, match="moved its position"):
        store.compare_and_set(stale, Position.before_first(1, {}).moved("reset", "bob"))
    with pytest.raises(Refused, match="seq 1 to 1"):
        store.compare_and_set(store.read(), first)


def test_a_table_that_was_rolled_back_is_not_called_landed_by_a_move(store: IcebergPositionStore) -> None:
    table = store.table
    below = table.metadata.current_snapshot_id
    assert below is not None
    table.append(ROWS)
    first = _first(store)
    before = store.read()
    assert before.halt is None
    store.table.manage_snapshots().set_current_snapshot(below).commit()

    halt = store.read().halt
    assert halt is not None and halt.reason == "rolled-back"
    with pytest.raises(Refused, match="was not moved") as refused:
        store.compare_and_set(before, first.moved("recover", "ann"))
    assert "of stream flights was rolled back" in refused.value.why
    assert store.read().position == first


def test_a_table_that_is_not_there_is_said(lake: SqlCatalog) -> None:
    halt = IcebergPositionStore(lake, "n.none", "flights").read().halt
    assert halt is not None and halt.reason == "table-missing"


def test_a_catalog_that_cannot_commit_is_a_dependency_that_is_down(
    lake: SqlCatalog, store: IcebergPositionStore, tmp_path: Path
) -> None:
    first = _first(store)
    raw = store.read().raw
    assert raw is not None
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        other.execute("BEGIN IMMEDIATE")  # readers pass, a commit fails
        with pytest.raises(DependencyDown, match="The catalog does not answer"):
            write_position(lake, "n.t", "flights", first.moved("recover", "ann"), raw)
        with pytest.raises(DependencyDown, match="The catalog does not answer"):
            remove_position(lake, "n.t", "flights", raw, {})
    assert store.read().position == first


def test_a_catalog_that_cannot_be_read_is_a_dependency_that_is_down(
    lake: SqlCatalog, store: IcebergPositionStore, tmp_path: Path
) -> None:
    first = _first(store)
    raw = store.read().raw
    assert raw is not None
    lake.engine.dispose()
    (tmp_path / "catalog.db").rename(tmp_path / "moved.db")
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(DependencyDown, match="The catalog does not answer"):
        write_position(lake, "n.t", "flights", first.moved("recover", "ann"), raw)
    with pytest.raises(DependencyDown, match="The catalog does not answer"):
        remove_position(lake, "n.t", "flights", raw, {})
