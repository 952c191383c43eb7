"""How many rows of a Delta table wait for a stream; the log is written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.connectors.delta.source import backlog
from lakeward.connectors.delta.source.history import Offset

AT = 1_772_000_000_000


def write(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    first = [{"metaData": {"id": "one"}}] if version == 0 else []
    info = {"commitInfo": {"operation": "WRITE", "timestamp": AT + version}}
    lines = [json.dumps(each, separators=(",", ":")) for each in (info, *first, *actions)]
    (log / f"{version:020d}.json").write_text("\n".join(lines))


def file(path: str, rows: int | None, at: int, *, change: bool = True) -> dict[str, Any]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {"path": path, "modificationTime": AT + at, "dataChange": change, "partitionValues": {}, **stats}}


def gone(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": False}}


def test_rows_behind_a_position_are_those_of_the_files_that_are_not_taken(tmp_path: Path) -> None:
    write(tmp_path, 0, file("b", 1, 2), file("a", 2, 2), file("c", 4, 1))
    write(tmp_path, 1, file("d", 8, 3), file("e", 16, 4))
    write(tmp_path, 2, gone("a"), gone("b"), file("ab", 3, 5, change=False))

    def behind(at: Offset | None) -> tuple[int | None, int | None]:
        found = backlog.behind(tmp_path, at)
        return found.rows, None if found.since_ms is None else found.since_ms - AT

    assert behind(None) == (31, 1), "the table as it stands"
    assert behind(Offset("one", 0, whole=True)) == (31, 1)
    assert behind(Offset("one", 0, whole=True, index=0)) == (27, 2), "c is the oldest and was taken first"
    assert behind(Offset("one", 0, whole=True, index=1)) == (25, 2)
    assert behind(Offset("one", 1, whole=False, index=-100)) == (24, 3)
    assert behind(Offset("one", 1, whole=False, index=0)) == (16, 4)
    assert behind(Offset("one", 2, whole=False)) == (0, None), "compaction adds nothing"
    assert behind(Offset("one", 3, whole=False)) == (0, None)
    assert backlog.newest(tmp_path, 20) == ["d", "e"]
    assert backlog.newest(tmp_path, 5) == ["d"]
    assert [each.path for each in backlog.since(tmp_path, AT + 1)] == ["d", "e"]
    write(tmp_path, 3, file("f", None, 6))
    assert behind(Offset("one", 3, whole=False)) == (None, 6), "its writer did not say"


def test_a_log_that_begins_with_a_checkpoint(tmp_path: Path) -> None:
    for version in (2, 3):
        write(tmp_path, version, file(f"f{version}", 10 * version, version))
    kind = pa.struct([("path", pa.string()), ("stats", pa.string()), ("modificationTime", pa.int64())])
    adds = [{"path": "a", "stats": '{"numRecords":7}', "modificationTime": AT}, None]
    name = f"{2:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"add": pa.array(adds, kind)}), tmp_path / "_delta_log" / name)
    assert backlog.behind(tmp_path, None).rows == 37
    assert backlog.behind(tmp_path, Offset("one", 2, whole=True, index=0)).rows == 30
