"""The files of a Delta log: what is a commit, what is a whole checkpoint, and both in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import delta_log
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.connectors.delta.delta_log import DeltaLog


def _checkpoint(folder: Path, name: str, *paths: str) -> None:
    adds = [{"path": path, "partitionValues": [("day", "1")]} for path in paths]
    kind = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string()))])
    removes = pa.array([{"path": None}] * len(adds), pa.struct([("path", pa.string())]))
    pq.write_table(pa.table({"add": pa.array(adds, kind), "remove": removes}), DeltaLog(folder).path / name)


def test_only_commits_and_whole_checkpoints_are_listed(tmp_path: Path) -> None:
    for version in (3, 4):
        delta_log.commit(tmp_path, version, delta_log.add(f"f{version}", 1))
    place = DeltaLog(tmp_path).path
    for name in (f".{5:020d}.json.x.tmp", f"{4:020d}.crc", "_last_checkpoint"):
        (place / name).touch()
    _checkpoint(tmp_path, f"{2:020d}.checkpoint.parquet", "a")
    _checkpoint(tmp_path, f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet", "half")

    listing = DeltaLog(tmp_path).listing()

    assert listing.versions == (3, 4)
    assert (listing.checkpoint(), listing.checkpoint(1)) == (2, -1)
    assert list(DeltaLog(tmp_path).times(listing)) == [3, 4]
    assert DeltaLog(tmp_path / "none").listing().versions == ()


def test_a_version_is_its_checkpoint_and_the_commits_behind_it(tmp_path: Path) -> None:
    delta_log.commit(tmp_path, 3, {"commitInfo": {"operation": "WRITE"}}, delta_log.add("b", 1))
    delta_log.commit(tmp_path, 4, delta_log.remove("a"))
    _checkpoint(tmp_path, f"{2:020d}.checkpoint.parquet", "a")
    log = DeltaLog(tmp_path)
    listing = log.listing()

    found = list(log.replay(listing, 4, ("add.path", "add.partitionValues", "remove.path"), "add", "remove"))

    assert [(version, next(iter(action))) for version, action in found] == [(2, "add"), (3, "add"), (4, "remove")]
    assert found[0][1]["add"] == {"path": "a", "partitionValues": {"day": "1"}}
    with pytest.raises(FileNotFoundError):
        list(log.replay(listing, 5, ("add.path",)))


def test_a_line_is_ended_by_a_line_feed_alone(tmp_path: Path) -> None:
    place = DeltaLog(tmp_path).path
    place.mkdir()
    (place / f"{0:020d}.json").write_text('{"add":{"path":"a\u2028b"}}\n\n{"remove":{"path":"c"}}\n', encoding="utf-8")
    assert [next(iter(each)) for each in DeltaLog(tmp_path).actions(0)] == ["add", "remove"]
    assert [each["add"]["path"] for each in DeltaLog(tmp_path).actions(0, "add")] == ["a\u2028b"]


UUID = "0f6e2f7c-1111-4222-8333-aaaaaaaaaaaa"


@pytest.mark.parametrize(
    "name", [f"{2:020d}.checkpoint.parquet", f"{2:020d}.checkpoint.{UUID}.parquet", f"{2:020d}.checkpoint.{UUID}.json"]
)
def test_a_checkpoint_of_version_2_has_the_files_of_its_sidecars(tmp_path: Path, name: str) -> None:
    delta_log.commit(tmp_path, 3, delta_log.remove("a"))
    place = DeltaLog(tmp_path).path
    sidecars = place / "_sidecars"
    sidecars.mkdir()
    for number, path in ((1, "a"), (2, "b")):
        _checkpoint(tmp_path, f"_sidecars/{number}.parquet", path)
    top: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 3}}, {"sidecar": {"path": "1.parquet"}}, {"sidecar": {"path": "2.parquet"}},
    ]  # fmt: skip
    if name.endswith(".json"):
        (place / name).write_text("\n".join(map(json.dumps, [{"checkpointMetadata": {"version": 2}}, *top])))
    else:
        kinds = ("protocol", "sidecar")
        pq.write_table(pa.table({kind: [each.get(kind) for each in top] for kind in kinds}), place / name)
    log = DeltaLog(tmp_path)
    columns = ("add.path", "remove.path", "protocol")
    found = [action for _, action in log.replay(log.listing(), 3, columns, "add", "remove")]
    assert [each["add"]["path"] for each in found if "add" in each] == ["a", "b"]
    assert [each["remove"]["path"] for each in found if "remove" in each] == ["a"]
    assert [each["protocol"]["minReaderVersion"] for each in found if "protocol" in each] == [3]
    assert not [each for each in found if "sidecar" in each or "checkpointMetadata" in each]


def test_an_action_may_have_blanks_before_its_kind(tmp_path: Path) -> None:
    place = DeltaLog(tmp_path).path
    place.mkdir()
    (place / f"{0:020d}.json").write_text(' { "add": {"path": "a"}}\n{"remove": {"path": "c"}}\n{"adder": {}}\n')
    assert [list(each) for each in DeltaLog(tmp_path).actions(0, "add", "remove")] == [["add"], ["remove"]]
