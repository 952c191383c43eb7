"""The copy of a file source's log: right or no use, whatever else lies there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import mirror
from lakeward.connectors.files.log import SourceLog, offset_text
from lakeward.connectors.files.mirror import Mirror
from lakeward.engine.checkpoint.files import LocalFiles

HERE = FileAccess()


def write(folder: Path, name: str, *entries: tuple[int, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": number}) for number, path in entries]
    (folder / name).write_text("\n".join(["v1", *lines]))


def position(folder: Path, number: int) -> str:
    return SourceLog(LocalFiles(), str(folder)).canonical(offset_text(number))


def test_a_copy_follows_the_log_through_a_compaction_and_gives_it_back(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    kept = Mirror(HERE, str(log), str(copy))
    write(log, "0", (0, "a"))
    write(log, "1", (1, "b"))
    kept.copy(0)
    assert sorted(each.name for each in copy.iterdir()) == ["0"], "what has not landed is not copied"
    assert mirror.find(HERE, str(copy), position(log, 0)) == 0
    assert mirror.find(HERE, str(copy), position(log, 1)) is None
    kept.copy(1)
    write(log, "2.compact", (0, "a"), (1, "b"), (2, "c"))
    for name in ("0", "1"):
        (log / name).unlink()
    kept.copy(2)
    assert [each.name for each in copy.iterdir()] == ["2.compact"]
    assert mirror.restore(HERE, str(copy), 2, str(tmp_path / "into")) == offset_text(2)
    assert position(tmp_path / "into", 2) == position(log, 2)


def test_a_copy_of_another_log_is_no_danger(tmp_path: Path) -> None:
    old, new, copy = tmp_path / "old", tmp_path / "new", tmp_path / "copy"
    write(old, "9.compact", *((number, f"x{number}") for number in range(10)))
    Mirror(HERE, str(old), str(copy)).copy(9)
    write(new, "0", (0, "a"))
    assert mirror.find(HERE, str(copy), position(new, 0)) is None, "the hash tells"
    Mirror(HERE, str(new), str(copy)).copy(0)
    assert [each.name for each in copy.iterdir()] == ["0"], "a start removes what is not of its log"
    (copy / "0").write_text("v1\n{cut")
    assert mirror.find(HERE, str(copy), position(new, 0)) is None


def test_what_somebody_did_to_the_copy_is_undone_by_the_next_batch(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    kept = Mirror(HERE, str(log), str(copy))
    write(log, "0", (0, "a"))
    write(log, "1", (1, "b"))
    kept.copy(1)
    (copy / "0").unlink()
    write(copy, "7", (7, "z"))
    write(log, "2", (2, "c"))
    kept.copy(2)
    assert sorted(each.name for each in copy.iterdir()) == ["0", "1", "2"]
    assert mirror.find(HERE, str(copy), position(log, 2)) == 2


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("file:/w/ns/t", "/w/ns/t.sources/s/in"),
        ("file:///w/ns/t/", "/w/ns/t.sources/s/in"),
        ("/w/ns/t", "/w/ns/t.sources/s/in"),
        ("s3://b/t", "s3://b/t.sources/s/in"),
        ("hdfs://b/t", None),
    ],
)
def test_it_is_next_to_the_table(location: str, folder: str | None) -> None:
    assert mirror.place(location, "s", "in") == folder
