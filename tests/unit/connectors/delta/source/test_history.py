"""What a Delta log says to a stream that reads the table; the log is written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.delta.source.history import Offset, check, parse, table_id
from lakeward.platform.errors import Blocked


def write(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    info = {"commitInfo": {"operation": "WRITE", "timestamp": 1_772_000_000_000}}
    lines = [json.dumps(each, separators=(",", ":")) for each in (info, *actions)]
    (log / f"{version:020d}.json").write_text("\n".join(lines))


def taken(path: str, *, change: bool) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": change}}


def blocked(folder: Path, at: Offset, *, skip: bool = False) -> Blocked:
    with pytest.raises(Blocked) as caught:
        check("s", "source", "ns.up", folder, at, skip=skip)
    return caught.value


def test_a_position_is_deltas_own() -> None:
    text = '{"index":-1,"isStartingVersion":false,"reservoirId":"id","reservoirVersion":4,"sourceVersion":1}'
    assert parse(text) == Offset("id", 4, whole=False)
    assert parse("-") is None
    assert parse('{"t":{"0":5}}') is None


def test_compaction_is_passed_over_and_changes_are_not(tmp_path: Path) -> None:
    write(tmp_path, 0, {"metaData": {"id": "one"}})
    write(tmp_path, 1, taken("a", change=False))
    write(tmp_path, 2, taken("b", change=True))
    check("s", "source", "ns.up", tmp_path, Offset("one", 3, whole=False), skip=False)
    assert "version 2 of 2026-02-25T06:13:20Z (WRITE) removes files" in blocked(
        tmp_path, Offset("one", 1, whole=False)
    ).why  # fmt: skip
    assert blocked(tmp_path, Offset("one", 1, whole=True)).reason == "source-rewritten"
    check("s", "source", "ns.up", tmp_path, Offset("one", 2, whole=True), skip=False)
    check("s", "source", "ns.up", tmp_path, Offset("one", 0, whole=False), skip=True)
    assert table_id(tmp_path) == "one"


def test_versions_that_are_gone_are_named(tmp_path: Path) -> None:
    for version in (3, 4):
        write(tmp_path, version)
    error = blocked(tmp_path, Offset("one", 1, whole=False))
    assert (error.reason, "deleted versions 1 to 2" in error.why) == ("source-expired", True)
    check("s", "source", "ns.up", tmp_path, Offset("one", 5, whole=False), skip=False)
    assert blocked(tmp_path, Offset("one", 6, whole=False)).reason == "source-rolled-back"
    assert blocked(tmp_path / "none", Offset("one", 1, whole=False)).reason == "source-rolled-back"
