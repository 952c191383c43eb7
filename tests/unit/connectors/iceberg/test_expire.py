"""Snapshots leave the metadata as Iceberg's own expiry removes them, in each kind of catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import update_table_metadata

from lakeward.connectors.iceberg.expire import expire_snapshots
from lakeward.platform.errors import Refused


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog with the table `n.t`, of four snapshots, the first two with a tag."""
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    table = made.create_table("n.t", pa.schema([("id", pa.int64())]))
    for each in range(4):
        table.append(pa.table({"id": [each]}))
    for number in range(2):
        table.manage_snapshots().create_tag(table.metadata.snapshots[number].snapshot_id, f"tag{number}").commit()
    yield made
    made.engine.dispose()


class Elsewhere:
    """Another kind of catalog: applies updates on the model, as Glue's and Hive's do."""

    after: TableMetadata

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> None:
        for each in requirements:
            each.validate(table.metadata)
        self.after = update_table_metadata(table.metadata, updates)


class Rest(RestCatalog):
    """A REST catalog that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: Any = None

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Any:
        self.sent = [json.loads(each.model_dump_json()) for each in (*requirements, *updates)]


def first_three(table: Table) -> list[int]:
    return [each.snapshot_id for each in table.metadata.snapshots[:3]]


def test_a_jdbc_catalog_keeps_parents_and_drops_refs(lake: Catalog) -> None:
    table = lake.load_table("n.t")
    gone, parent = first_three(table), table.current_snapshot().parent_snapshot_id
    expire_snapshots(lake, table, gone, ["tag0", "tag1"])
    after = lake.load_table("n.t")
    assert [each.parent_snapshot_id for each in after.metadata.snapshots] == [parent]
    assert [each.snapshot_id for each in after.metadata.snapshot_log] == [table.metadata.current_snapshot_id]
    assert list(after.metadata.refs) == ["main"] and len(after.scan().to_arrow()) == 4
    with pytest.raises(CommitFailedException):
        expire_snapshots(lake, table, gone, ["tag0", "tag1"])


def test_another_catalog_keeps_parents_too(lake: Catalog) -> None:
    table, other = lake.load_table("n.t"), Elsewhere()
    expire_snapshots(other, table, first_three(table), ["tag0", "tag1"])  # type: ignore[arg-type]  # what it needs
    assert [each.parent_snapshot_id for each in other.after.snapshots] == [table.current_snapshot().parent_snapshot_id]
    assert list(other.after.refs) == ["main"] and len(other.after.snapshot_log) == 1


def test_a_rest_catalog_gets_the_request_with_every_ref_it_was_decided_on(lake: Catalog) -> None:
    table, rest = lake.load_table("n.t"), Rest()
    expire_snapshots(rest, table, first_three(table), ["tag0", "tag1"])
    asserted = [each["ref"] for each in rest.sent if each.get("type") == "assert-ref-snapshot-id"]
    assert sorted(asserted) == ["main", "tag0", "tag1"]
    assert [each["action"] for each in rest.sent if "action" in each] == [
        "remove-snapshot-ref", "remove-snapshot-ref", "remove-snapshots",
    ]  # fmt: skip
    assert sorted(rest.sent[-1]["snapshot-ids"]) == sorted(first_three(table))


def test_another_catalog_does_not_write_format_3(lake: Catalog) -> None:
    table = lake.load_table("n.t")
    table.metadata = table.metadata.model_copy(update={"format_version": 3})
    with pytest.raises(Refused, match="Cannot expire snapshots"):
        expire_snapshots(Elsewhere(), table, first_three(table), [])  # type: ignore[arg-type]  # what it needs
