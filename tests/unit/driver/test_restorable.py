"""Whether `recover` is offered: a checkpoint of files is made of the copy of its log, and that may be lost too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import mirror
from lakeward.connectors.files.log import SourceLog, offset_text
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.driver.starting import _restorable
from lakeward.engine.checkpoint.preflight import Finding, Verdict
from lakeward.spec.model.sources import Source
from lakeward.supervision.decide.remedy import of_block

MISSING = Verdict(Finding.MISSING, "w", "y", "lakeward streams recover s   continues at the table's position")


class Table:
    """A sink whose table is in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def location(self) -> str:
        return str(self.folder)


@pytest.mark.parametrize("copied", [True, False])
def test_recover_is_offered_where_it_can_succeed(tmp_path: Path, copied: bool) -> None:
    spec = Source.model_validate({"files": {"path": "/data", "format": "text", "max_files_per_trigger": 1}})
    source, sink = FilesStreamSource("source", spec, stream="s"), Table(tmp_path / "t")
    log = Path(str(mirror.place(sink.location(), "s", "source")))
    log.mkdir(parents=True)
    (log / "0").write_text('v1\n{"path":"file:///data/a","timestamp":1,"batchId":0}')
    end = SourceLog(FileAccess(), str(log)).canonical(offset_text(0))
    if not copied:
        (log / "0").unlink()
    position = Position(seq=1, query_id="q", batch=0, end={"source": end}, topic_ids={})
    table: Any = sink
    found = _restorable("s", MISSING, position, [source], table)
    if copied:
        assert found is MISSING
        return
    assert "source does not list the landed files either" in found.why
    ways = of_block("s", {"reason": str(found.finding), "next": found.next})
    assert ways.startswith(
        "restore the checkpoint from a copy; then: lakeward streams start s; or give the stream a new"
    )
    assert ways.endswith("lakeward deploy --retire s")
    assert _restorable("s", MISSING, None, [source], table) is MISSING
