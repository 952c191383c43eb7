"""A checkpoint made again: what Spark reads of it at its first start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.log import SourceLog, offset_text
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.engine.checkpoint.files import LocalFiles, read
from lakeward.engine.checkpoint.preflight import Finding, classify
from lakeward.engine.checkpoint.rebuild import rebuild
from lakeward.platform.errors import Blocked, SpecError
from lakeward.spec.model.sources import Source


def source_with_copy(tmp_path: Path) -> tuple[FilesStreamSource, Path]:
    """A source of files, and the folder of the copy of its log, which has two entries."""
    spec = Source.model_validate({"files": {"path": "/in", "format": "text", "max_files_per_trigger": 1}})
    made = FilesStreamSource("in", spec, stream="s")
    made.opened(LocalFiles(), f"{tmp_path}/old/sources/0", f"{tmp_path}/t")
    copy = tmp_path / "t.sources" / "s" / "in"
    copy.mkdir(parents=True)
    for number in range(2):
        entry = json.dumps({"path": f"file:///in/{number}", "timestamp": 1, "batchId": number})
        (copy / str(number)).write_text(f"v1\n{entry}")
    return made, copy


def test_its_newest_finished_batch_is_at_the_position_and_has_no_file(tmp_path: Path) -> None:
    source, copy = source_with_copy(tmp_path)
    end = SourceLog(LocalFiles(), str(copy)).canonical(offset_text(1))
    folder = f"{tmp_path}/checkpoints/s.2"
    assert rebuild(folder, [source], {"in": end}, FileAccess())
    made = read(LocalFiles(), folder)
    before, newest = (made.offsets[number].ends for number in sorted(made.offsets))
    assert before == newest == (end,), "else Spark lists every file that ever landed before it goes on"
    assert made.committed == made.newest
    recovered = Position(seq=3, query_id="", batch=-1, end={"in": end})
    assert classify("s", made, recovered, exact=True).finding is Finding.CLEAN


def test_nothing_is_made_where_the_copy_does_not_hold_the_position(tmp_path: Path) -> None:
    source, copy = source_with_copy(tmp_path)
    end = SourceLog(LocalFiles(), str(copy)).canonical(offset_text(1))
    (copy / "0").write_text((copy / "0").read_text().replace("/in/0", "/in/9"))
    with pytest.raises(Blocked, match="Cannot rebuild the checkpoint"):
        rebuild(f"{tmp_path}/checkpoints/s.2", [source], {"in": end}, FileAccess())
    assert not (tmp_path / "checkpoints" / "s.2").exists()


def test_on_an_object_store_nobody_names_nothing_is_made_and_no_folder_of_its_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = source_with_copy(tmp_path)
    end = SourceLog(LocalFiles(), str(copy)).canonical(offset_text(1))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match="No object store is configured for s3a://lake/checkpoints"):
        rebuild("s3a://lake/checkpoints/s.2", [source], {"in": end}, FileAccess())
    assert not list(tmp_path.glob("s3a*"))
