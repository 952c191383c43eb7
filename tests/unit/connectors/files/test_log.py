"""The position of a file source, from the log that Spark keeps of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import AlreadyLanded, BlockReason, follow
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.files.log import LogBroken, SourceLog, count_of
from lakeward.engine.checkpoint.files import LocalFiles


def line(entry: int, name: str) -> str:
    return json.dumps({"path": f"file:///in/{name}", "timestamp": 1000 + entry, "batchId": entry})


def written(folder: Path, entries: dict[int, list[str]], compact: int | None = None) -> SourceLog:
    """A log with these entries; up to `compact` in one file, and only there."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, names in entries.items():
        if compact is None or number > compact:
            (folder / str(number)).write_text("\n".join(["v1", *(line(number, name) for name in names)]))
    if compact is not None:
        lines = [line(number, name) for number, names in entries.items() if number <= compact for name in names]
        (folder / f"{compact}.compact").write_text("\n".join(["v1", *lines]))
    return SourceLog(LocalFiles(), str(folder))


def offset(number: int) -> str:
    return json.dumps({"logOffset": number})


HISTORY = {number: [f"{number}-{each}" for each in range(2)] for number in range(12)}


def test_the_position_is_how_many_files_and_which(tmp_path: Path) -> None:
    log = written(tmp_path, {0: ["a"], 1: ["b", "c"]})
    assert json.loads(log.canonical(offset(1)))["files"] == 3
    assert count_of(log.canonical(offset(1))) == 3
    assert [each.path[-1] for each in log.between(log.canonical(offset(0)), log.canonical(offset(1)))] == ["b", "c"]
    assert [each.path[-1] for each in log.between("-", log.canonical(offset(0)))] == ["a"]
    assert log.between("-", "-") == []


def test_equal_numbers_of_other_histories_are_other_positions(tmp_path: Path) -> None:
    """What Spark's own offset cannot tell: an older copy with changed caps took other files into entry 1."""
    ours = written(tmp_path / "a", {0: ["a"], 1: ["b", "c"]}).canonical(offset(1))
    theirs = written(tmp_path / "b", {0: ["a"], 1: ["b", "x"]}).canonical(offset(1))
    fewer = written(tmp_path / "c", {0: ["a"], 1: ["b"]}).canonical(offset(1))
    assert len({ours, theirs, fewer}) == 3

    position = Position(seq=2, query_id="q", batch=1, end={"source": ours})
    start = {"source": written(tmp_path / "d", {0: ["a"]}).canonical(offset(0))}
    assert isinstance(follow("s", "ns.t", position, RunningBatch("q", 1, start, {"source": ours})), AlreadyLanded)
    halt = follow("s", "ns.t", position, RunningBatch("q", 1, start, {"source": theirs}))
    assert isinstance(halt, BlockReason)
    assert halt.reason == "diverged"
    halt = follow("s", "ns.t", position, RunningBatch("q", 2, {"source": theirs}, {"source": "later"}))
    assert isinstance(halt, BlockReason)
    assert halt.reason == "discontinuous"


def test_the_position_does_not_depend_on_compaction_or_on_how_it_was_come_to(tmp_path: Path) -> None:
    plain, compacted = written(tmp_path / "a", HISTORY), written(tmp_path / "b", HISTORY, compact=9)
    step_by_step = [plain.canonical(offset(number)) for number in range(12)]
    assert [SourceLog(LocalFiles(), plain.folder).canonical(offset(n)) for n in (3, 9, 11)] == [
        step_by_step[n] for n in (3, 9, 11)
    ]
    assert [compacted.canonical(offset(number)) for number in (11, 10, 9, 4)] == [
        step_by_step[n] for n in (11, 10, 9, 4)
    ]
    assert [each.entry for each in compacted.between(step_by_step[9], step_by_step[11])] == [10, 10, 11, 11]


def test_a_log_that_lacks_an_entry_says_which(tmp_path: Path) -> None:
    log = written(tmp_path, {0: ["a"], 1: ["b"], 2: ["c"]})
    (tmp_path / "1").unlink()
    with pytest.raises(LogBroken, match=r"1: it is absent"):
        log.canonical(offset(2))
    (tmp_path / "1").write_text("v1\n{cut")
    with pytest.raises(LogBroken, match=r"1: its JSON is truncated"):
        log.canonical(offset(2))
    (tmp_path / "1").write_text("")
    with pytest.raises(LogBroken, match=r"1: it is empty"):
        log.canonical(offset(2))


def test_other_texts_are_no_positions_of_files(tmp_path: Path) -> None:
    log = SourceLog(LocalFiles(), str(tmp_path))
    assert log.canonical("-") == "-"
    assert [count_of(text) for text in ("-", "5", '{"t":{"0":3}}', '{"files":"x","hash":""}')] == [None] * 4
