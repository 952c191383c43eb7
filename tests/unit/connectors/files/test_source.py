"""A source of files whose log is lost: nothing says which files landed, so no checkpoint is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import mirror
from lakeward.connectors.files.log import SourceLog, offset_text
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.platform.errors import Blocked
from lakeward.spec.model.sources import Source


@pytest.mark.parametrize("beside", [False, True], ids=["nowhere", "an empty folder"])
def test_a_log_without_a_copy_is_not_made_up(tmp_path: Path, beside: bool) -> None:
    spec = Source.model_validate({"files": {"path": "/data", "format": "text", "max_files_per_trigger": 1}})
    source = FilesStreamSource("source", spec, stream="s", _copy=str(tmp_path) if beside else None)
    with pytest.raises(Blocked) as raised:
        source.restored("3:abc", str(tmp_path / "sources"))
    assert raised.value.reason == "log-missing"
    assert "does not have 3:abc" in raised.value.why
    assert not (tmp_path / "sources").exists()


def test_a_position_is_restorable_where_a_copy_of_the_log_has_it(tmp_path: Path) -> None:
    spec = Source.model_validate({"files": {"path": "/data", "format": "text", "max_files_per_trigger": 1}})
    source = FilesStreamSource("source", spec, stream="s")
    log = Path(str(mirror.place(str(tmp_path / "t"), "s", "source")))
    assert not source.restorable("3:abc", str(tmp_path / "t"))
    assert not source.restorable("3:abc", None)
    assert source.restorable(NO_DATA, None)
    log.mkdir(parents=True)
    (log / "0").write_text('v1\n{"path":"file:///data/a","timestamp":1,"batchId":0}')
    landed = SourceLog(FileAccess(), str(log)).canonical(offset_text(0))
    assert source.restorable(landed, str(tmp_path / "t"))
    assert not source.restorable("3:abc", str(tmp_path / "t"))
