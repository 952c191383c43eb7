"""A position that was removed from a table, or overwritten, comes back from an earlier metadata file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.iceberg.position_store import IcebergPositionStore
from lakeward.connectors.iceberg.put_back import earlier, put_back
from lakeward.platform.errors import Fenced

ROWS = pa.table({"n": pa.array([1], pa.int64())})
KEY = key("flights")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("n")
    catalog.create_table("n.t", ROWS.schema)
    yield catalog
    catalog.close()


@pytest.fixture
def store(lake: SqlCatalog) -> IcebergPositionStore:
    """A table with the first batch of the stream and its position."""
    made = IcebergPositionStore(lake, "n.t", "flights")
    _batch(made, 1)
    head = made.table.current_snapshot()
    assert head is not None
    first = Position.before_first(1, {}).moved("reset", "ann")
    at = {"snapshot": head.snapshot_id, "snapshot_seq": head.sequence_number}
    _set(made, first.model_copy(update=at).to_json())
    assert made.read().halt is None
    return made


def _batch(store: IcebergPositionStore, seq: int) -> None:
    store.table.append(
        ROWS, snapshot_properties={"lakeward.attempt": f"flights/{seq}/abc", "wap.id": f"flights/{seq}/abc"}
    )


def _set(store: IcebergPositionStore, text: str | None) -> None:
    with store.table.transaction() as change:
        if text is None:
            change.remove_properties(KEY)
        else:
            change.set_properties({KEY: text})


@pytest.mark.parametrize("text", [None, "no position"])
def test_it_comes_back_unchanged_also_after_commits_of_others(
    lake: SqlCatalog, store: IcebergPositionStore, text: str | None
) -> None:
    before = store.read()
    _set(store, text)
    store.table.append(ROWS)

    found = earlier(store.table, "n.t", "flights")
    assert found is not None and (found.raw, found.present) == (before.raw, text)
    assert put_back(lake, "n.t", "flights", found)
    assert store.read() == before


def test_a_position_that_does_not_count_every_batch_is_not_put_back(
    lake: SqlCatalog, store: IcebergPositionStore
) -> None:
    _set(store, None)
    complete = earlier(store.table, "n.t", "flights")
    _batch(store, 2)

    assert earlier(store.table, "n.t", "flights") is None
    assert complete is not None and not put_back(lake, "n.t", "flights", complete)
    assert store.read().raw is None


def test_a_batch_that_lands_meanwhile_is_not_overwritten(lake: SqlCatalog, store: IcebergPositionStore) -> None:
    _set(store, None)
    found = earlier(store.table, "n.t", "flights")
    assert found is not None
    _set(store, found.position.moved("reset", "bob").to_json())
    with pytest.raises(Fenced):
        put_back(lake, "n.t", "flights", found)


def test_an_older_position_is_not_taken_for_the_newest_when_a_metadata_file_cannot_be_read(
    lake: SqlCatalog, store: IcebergPositionStore
) -> None:
    first = store.read().position
    assert first is not None
    _set(store, first.moved("reset", "bob").to_json())  # without a snapshot: the batches say nothing of it
    _set(store, None)
    newest = store.table.metadata.metadata_log[-1].metadata_file
    Path(newest.removeprefix("file://")).unlink()
    assert earlier(store.table, "n.t", "flights") is None


def test_a_stream_that_never_landed_has_no_earlier_position(store: IcebergPositionStore) -> None:
    assert earlier(store.table, "n.t", "alerts") is None
