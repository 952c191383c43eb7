"""Updates of a table of format version 3, which PyIceberg reads and does not write: every other value stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.iceberg import rename
from lakeward.connectors.iceberg.catalogs.jdbc_client import JdbcClient
from lakeward.connectors.iceberg.position_store import write_position
from lakeward.platform.errors import Refused
from lakeward.tables.act.rollback import roll_back


def of(table: Table) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    return found


def ref(name: str, snapshot: int, **more: Any) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(**{"ref-name": name, "type": "branch", "snapshot-id": snapshot} | more)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JdbcClient]:
    """A catalog with `n.t` of two snapshots, in format version 3 and with what PyIceberg's model does not know."""
    monkeypatch.setattr(JdbcClient, "_init_catalog", lambda self: super(JdbcClient, self)._init_catalog())
    made = JdbcClient("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    table = made.create_table("n.t", pa.schema([("id", pa.int64())]), properties={"a": "1", "b": "2"})
    for each in (1, 2):
        table.append(pa.table({"id": [each]}))
    document = of(table.refresh()) | {"format-version": 3, "next-row-id": 2}
    document["encryption-keys"] = [{"key-id": "k1", "encrypted-key-metadata": "AAAA"}]
    for number, snapshot in enumerate(document["snapshots"]):
        snapshot |= {"first-row-id": number, "added-rows": 1, "key-id": "k1"}
    Path(table.metadata_location.removeprefix("file://")).write_text(json.dumps(document))
    yield made
    made.engine.dispose()


def test_properties_and_refs_change_and_nothing_else(lake: JdbcClient) -> None:
    table = lake.load_table("n.t")
    before, first = of(table), table.metadata.snapshots[0].snapshot_id
    done = lake.commit_table(
        table,
        (AssertTableUUID(uuid=table.metadata.table_uuid),),
        (
            RemovePropertiesUpdate(removals=["a", "none"]),
            SetPropertiesUpdate(updates={"b": "3", "c": "4"}),
            ref("old", first, **{"type": "tag", "max-ref-age-ms": 5}),
        ),
    )
    after = of(lake.load_table("n.t"))
    assert done.metadata_location == lake.load_table("n.t").metadata_location
    assert after["properties"] == {"b": "3", "c": "4"}
    assert after["refs"] == before["refs"] | {"old": {"type": "tag", "snapshot-id": first, "max-ref-age-ms": 5}}
    changed = {"properties", "refs", "metadata-log", "last-updated-ms"}
    assert {name for name in before | after if before.get(name) != after.get(name)} <= changed


def test_main_moves_with_the_snapshot_log(lake: JdbcClient) -> None:
    table = lake.load_table("n.t")
    first, head = (each.snapshot_id for each in table.metadata.snapshots)
    assert roll_back(table, head, first)
    after = of(lake.load_table("n.t"))
    assert (after["current-snapshot-id"], after["refs"]["main"]["snapshot-id"]) == (first, first)
    times = [each["timestamp-ms"] for each in after["snapshot-log"]]
    assert after["snapshot-log"][-1]["snapshot-id"] == first
    assert times == sorted(times) and times[-1] <= after["last-updated-ms"]
    assert (after["next-row-id"], len(after["encryption-keys"])) == (2, 1)
    assert not roll_back(table, head, first), "main is elsewhere by now"


def test_what_does_not_hold_any_more_changes_nothing(lake: JdbcClient) -> None:
    table = lake.load_table("n.t")
    where = table.metadata_location
    off = AssertRefSnapshotId(**{"ref": "main", "snapshot-id": 7})
    with pytest.raises(CommitFailedException):
        lake.commit_table(table, (off,), (SetPropertiesUpdate(updates={"a": "9"}),))
    with pytest.raises(CommitFailedException, match="not in the table any more"):
        lake.commit_table(table, (), (ref("main", 7),))
    with pytest.raises(Refused, match="format version 3 is not possible"):  # PyIceberg does not write it
        lake.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))
    assert lake.load_table("n.t").metadata_location == where


def test_a_position_is_set_and_properties_are_amended(lake: JdbcClient) -> None:
    moved = write_position(lake, "n.t", "s", Position(seq=1, query_id="q", batch=0, end={"source": "1"}), None)
    head = lake.load_table("n.t").metadata.current_snapshot_id
    assert (moved.seq, moved.snapshot) == (1, head)
    table = rename.amend(lake, "n.t", lambda _: {"b": None, "d": "5"}, {"b": "2"})
    assert {name: table.properties.get(name) for name in ("a", "b", "d")} == {"a": "1", "b": None, "d": "5"}
    assert key("s") in table.properties
    with table.transaction() as change:
        change.set_properties({"write.wap.enabled": "true"})
    assert lake.load_table("n.t").properties["write.wap.enabled"] == "true"
