"""Which metadata file brings a dropped table back: the newest of the folder, which may have files of earlier tables."""

from __future__ import annotations

import json
from pathlib import Path

from lakeward.connectors.iceberg import missing_records_table, missing_table
from lakeward.platform.runtime import Lake


def written(warehouse: Path, number: int, at: int, rows: int) -> str:
    folder = warehouse / "a" / "q" / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    snapshots = [{"snapshot-id": 1, "summary": {"total-records": "99"}}]
    snapshots.append({"snapshot-id": 2, "summary": {"total-records": str(rows)}})
    file = folder / f"{number:05d}-{at}.metadata.json"
    file.write_text(json.dumps({"last-updated-ms": at, "current-snapshot-id": 2, "snapshots": snapshots}))
    return str(file)


def test_the_newest_is_by_time_and_not_by_number(tmp_path: Path) -> None:
    newest = written(tmp_path, 3, 2000, 5)
    written(tmp_path, 50, 1000, 80)
    assert missing_table.newest_metadata(str(tmp_path), "a.q") == newest


def test_a_file_that_is_cut_is_no_metadata(tmp_path: Path) -> None:
    whole = written(tmp_path, 1, 1000, 5)
    Path(written(tmp_path, 2, 2000, 5)).write_text('{"last-upd')
    assert missing_table.newest_metadata(str(tmp_path), "a.q") == whole
    Path(whole).unlink()
    assert missing_table.newest_metadata(str(tmp_path), "a.q") is None
    assert missing_table.newest_metadata(str(tmp_path / "none"), "a.q") is None


def test_a_quarantine_is_registered_only_from_a_file_that_has_its_records(tmp_path: Path) -> None:
    file = written(tmp_path, 3, 2000, 5)
    back = missing_records_table.block_reason("s", "a.q", 5, Lake(warehouse=str(tmp_path))).next.split("; or ")
    assert f"metadata_file => '{file}')" in back[0]
    assert "CREATE TABLE" in back[1]
    gone = missing_records_table.block_reason("s", "a.q", 6, Lake(warehouse=str(tmp_path))).next.split("; or ")
    assert "CREATE TABLE" in gone[0]
    assert gone[1] == "restore the table from a backup, then: lakeward streams start s"
