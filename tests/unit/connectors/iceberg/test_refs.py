"""Refs that move on a condition, of tables whose metadata PyIceberg writes and in the document of those it does not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table import update as changes

from lakeward.connectors.iceberg.refs import set_refs, settable
from lakeward.platform.errors import Internal

MAKE: Any = changes  # pydantic hides these constructors from mypy


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog with the table `n.t`, of one row."""
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    made.create_table("n.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    yield made
    made.engine.dispose()


def of(file: str) -> dict[str, Any]:
    data = Path(file.removeprefix("file://")).read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if ".gz." in file else data)
    return found


def as_v3(lake: Catalog, *, zipped: bool = False, **properties: str) -> Table:
    """The same table as format v3 has it, with what PyIceberg's model does not know."""
    old = lake.load_table("n.t")
    document = of(old.metadata_location)
    document |= {"format-version": 3, "next-row-id": 1, "properties": properties}
    document["encryption-keys"] = [{"key-id": "k1", "encrypted-key-metadata": "AAAA"}]
    document["snapshots"][0] |= {"first-row-id": 0, "added-rows": 1, "key-id": "k1"}
    document["schemas"][0]["fields"][0]["write-default"] = 9007199254740993
    document["metadata-log"] = [
        {"timestamp-ms": 1, "metadata-file": f"{old.location()}/metadata/old{n}.json"} for n in range(3)
    ]
    text = json.dumps(document).encode()
    for each in Path(old.location().removeprefix("file://"), "metadata").glob("*.json"):
        each.unlink()
    file = f"{old.location()}/metadata/00007-{uuid4()}{'.gz' * zipped}.metadata.json"
    Path(file.removeprefix("file://")).write_bytes(gzip.compress(text) if zipped else text)
    for each in document["metadata-log"]:
        Path(each["metadata-file"].removeprefix("file://")).write_text("{}")
    lake.drop_table("n.t")
    return lake.register_table("n.t", file)


def point(lake: Catalog, table: Table, name: str = "verified", held: int | None = None, **more: Any) -> None:
    head = table.metadata.current_snapshot_id
    requirements = (
        MAKE.AssertTableUUID(uuid=table.metadata.table_uuid),
        MAKE.AssertRefSnapshotId(ref="main", snapshot_id=head),
        MAKE.AssertRefSnapshotId(ref=name, snapshot_id=held),
    )
    kind = "tag" if more else "branch"
    set_refs(lake, table, requirements, [MAKE.SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=head, **more)])


@pytest.mark.parametrize("zipped", [False, True])
def test_nothing_but_the_ref_changes_in_the_document(lake, zipped: bool) -> None:
    table = as_v3(lake, zipped=zipped)
    before = of(table.metadata_location)
    assert settable(lake, table)
    point(lake, table)
    point(lake, lake.load_table("n.t"), "day", max_ref_age_ms=604800000)
    now = lake.load_table("n.t")
    after = of(now.metadata_location)
    head = before["current-snapshot-id"]
    assert after["refs"] == {
        **before["refs"],
        "verified": {"snapshot-id": head, "type": "branch"},
        "day": {"snapshot-id": head, "type": "tag", "max-ref-age-ms": 604800000},
    }
    assert [each["metadata-file"] for each in after["metadata-log"]][3] == table.metadata_location
    assert after["last-updated-ms"] >= before["last-updated-ms"]
    changed = {"refs", "metadata-log", "last-updated-ms"}
    assert {key: each for key, each in after.items() if key not in changed} == {
        key: each for key, each in before.items() if key not in changed
    }
    assert now.metadata_location.split("/")[-1].startswith("00009-")


def test_a_commit_in_between_wins_and_leaves_no_file_of_ours(lake) -> None:
    stale = as_v3(lake)
    point(lake, lake.load_table("n.t"), "other")
    files = set(Path(stale.location().removeprefix("file://"), "metadata").iterdir())
    with pytest.raises(CommitFailedException, match="updated by another"):
        point(lake, stale)
    assert "verified" not in lake.load_table("n.t").metadata.refs
    assert set(Path(stale.location().removeprefix("file://"), "metadata").iterdir()) == files


def test_what_is_required_is_looked_at_before_anything_is_written(lake) -> None:
    table = as_v3(lake)
    with pytest.raises(CommitFailedException, match="verified"):
        point(lake, table, held=77)


@pytest.mark.parametrize("v3", [False, True])
def test_old_metadata_files_go_where_the_table_says_so(lake, v3: bool) -> None:
    wanted = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    if v3:
        as_v3(lake, **wanted)
    else:
        with lake.load_table("n.t").transaction() as change:
            change.set_properties(wanted)
    for name in ("a", "b", "c"):
        point(lake, lake.load_table("n.t"), name)
    now = lake.load_table("n.t")
    kept = [each.metadata_file for each in now.metadata.metadata_log]
    folder = Path(now.location().removeprefix("file://"), "metadata")
    assert len(kept) == 2
    assert {f"file://{each}" for each in folder.glob("*.json")} - {now.metadata_location} == set(kept)


def test_main_is_never_set_by_its_ref_alone(lake) -> None:
    with pytest.raises(Internal, match=r"Branch main of n\.t"):
        point(lake, as_v3(lake), "main", held=lake.load_table("n.t").metadata.current_snapshot_id)
