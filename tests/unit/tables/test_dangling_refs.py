"""A ref on a snapshot that the metadata lacks: nothing of the table is deleted, because its files may repair it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_files import SharedLake, opened, rows

from lakeward.platform.runtime import Runtime
from lakeward.telemetry import failpoints


@pytest.fixture
def lake(where: Runtime, tmp_path: Path) -> Iterator[SharedLake]:
    with opened(where, tmp_path) as made:
        yield made


def forget_the_head(lake: SharedLake, table: str) -> int:
    """Damage the metadata as a writer did that expired a snapshot which main holds; the snapshot."""
    loaded = lake.load(table)
    file = Path(loaded.metadata_location)
    document = json.loads(file.read_text())
    head = loaded.metadata.current_snapshot_id
    document["snapshots"] = [each for each in document["snapshots"] if each["snapshot-id"] != head]
    file.write_text(json.dumps(document))
    return int(head)


def files(lake: SharedLake, table: str) -> set[Path]:
    return {file for file in lake.folder(table).rglob("*") if file.is_file()}


@pytest.mark.parametrize("action", ["expire", "orphans"])
def test_nothing_of_it_is_deleted(lake: SharedLake, action: str) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    head = forget_the_head(lake, table)
    before = files(lake, table)
    done = lake.expire(table) if action == "expire" else lake.orphans(table)
    why = " ".join(each["why"] for each in done["plan"]["not_planned"])
    assert f"main is on snapshot {head}, which the metadata does not have" in why
    assert files(lake, table) == before


def test_an_expiry_notices_it_before_its_commit(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    lake.load(table).manage_snapshots().create_tag(lake.load(table).metadata.snapshots[1].snapshot_id, "kept").commit()

    def damage() -> None:
        loaded = lake.load(table)
        file = Path(loaded.metadata_location)
        document = json.loads(file.read_text())
        document["refs"]["lost"] = {"snapshot-id": 5, "type": "tag"}
        document["refs"]["more"] = {"snapshot-id": 6, "type": "tag"}
        file.write_text(json.dumps(document))

    failpoints._hooks["expire-read"] = damage
    before = files(lake, table)
    [done] = lake.expire(table)["actions"]
    assert done["result"] == "failed"
    assert "lost is on snapshot 5, which the metadata does not have, and 1 more ref" in done["why"]
    assert files(lake, table) >= before
