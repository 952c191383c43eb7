"""A checkpoint of a file source: its offsets are what the source's log says they stand for."""

from __future__ import annotations

import json
from pathlib import Path

from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint import files as checkpoint
from lakeward.engine.checkpoint import preflight
from lakeward.engine.checkpoint.preflight import Finding


def write(root: Path, files: list[list[str]]) -> None:
    """A checkpoint with a finished batch for each list of files."""
    for name in ("offsets", "commits", "sources/0"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "metadata").write_text('{"id":"q"}')
    for batch, paths in enumerate(files):
        (root / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", json.dumps({"logOffset": batch})]))
        (root / "commits" / str(batch)).write_text("v1\n{}")
        lines = [json.dumps({"path": path, "timestamp": 1, "batchId": batch}) for path in paths]
        (root / "sources/0" / str(batch)).write_text("\n".join(["v1", *lines]))


def position_of(root: Path, batch: int) -> Position:
    kept = checkpoint.read(checkpoint.LocalFiles(), str(root))
    return Position(seq=batch + 1, query_id="q", batch=batch, end={"source": kept.offsets[batch].ends[0]})


def judge(root: Path, position: Position) -> preflight.Verdict:
    kept = checkpoint.read(checkpoint.LocalFiles(), str(root))
    return preflight.classify("s", kept, position, exact=True)


def test_the_same_files_are_the_same_position(tmp_path: Path) -> None:
    write(tmp_path / "a", [["f1"], ["f2"]])
    position = position_of(tmp_path / "a", 1)
    assert judge(tmp_path / "a", position).finding is Finding.CLEAN


def test_an_older_copy_that_took_other_files_into_the_same_batch(tmp_path: Path) -> None:
    write(tmp_path / "a", [["f1"], ["f2"]])
    position = position_of(tmp_path / "a", 1)
    write(tmp_path / "b", [["f1"], ["f2", "f3"]])
    verdict = judge(tmp_path / "b", position)
    assert verdict.finding is Finding.OLDER
    assert '"files":3' in verdict.why, "Spark's own offsets are equal"
    assert '"files":2' in verdict.why


def test_a_log_that_is_damaged_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a", [["f1"], ["f2"]])
    position = position_of(tmp_path / "a", 1)
    (tmp_path / "a/sources/0/1").unlink()
    verdict = judge(tmp_path / "a", position)
    assert verdict.finding is Finding.TRUNCATED
    assert "sources/0/1, and it is absent" in verdict.why
