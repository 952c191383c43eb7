from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from delta_log import START_MS, add, commit, remove, table

from lakeward.connectors.delta import state
from lakeward.connectors.delta.state import State
from lakeward.tables.plan.model import Action
from lakeward.tables.verify import Moved
from lakeward.tables.verify_delta import folder_state, moved_by, verify_vacuum


def look(folder: Path) -> State:
    read = state.read(folder)
    assert read is not None
    return read


def test_a_rewrite_is_counted_by_partition_and_a_write_beside_it_is_not(tmp_path: Path) -> None:
    commit(tmp_path, 0, table(), add("a", 1, 10, day="x"), add("b", 1, 10, day="x"), add("c", 1, 10, day="y"))
    before = look(tmp_path)
    commit(tmp_path, 1, add("d", 1, 10, day="x"))
    commit(tmp_path, 2, *(remove(each, rewrite=True) for each in "ab"), add("ab", 2, 19, rewrite=True, day="x"))
    assert moved_by(before, look(tmp_path)) == {2: {"day=x": Moved(rows_in=19, rows_out=20, files_in=1, files_out=2)}}


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    """Four files, of which two were taken out, one long ago."""
    commit(tmp_path, 0, table(""), *(add(each, 1) for each in "abcd"))
    commit(tmp_path, 1, remove("a", at=1))
    commit(tmp_path, 2, remove("b", at=100))
    for each in "abcd":
        (tmp_path / each).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("deleted", "ok", "harmed", "why"),
    [
        ("a", True, False, "1 file went, 2 files stand"),
        ("", False, False, "0 files went, 1 were promised"),
        ("ab", False, True, "b went though it was taken out later than allowed"),
        ("ac", False, True, "gone from the folder: 1 file of the table, e.g. c"),
    ],
)
def test_a_vacuum_takes_what_was_promised_and_nothing_else(
    cleaned: Path, deleted: str, ok: bool, harmed: bool, why: str
) -> None:
    before = look(cleaned)
    held = folder_state(before)
    for each in deleted:
        (cleaned / each).unlink()
    cutoff = datetime.fromtimestamp(START_MS / 1000 + 60 * 50, UTC)
    verdict = verify_vacuum(Action("expire", "", older_than=cutoff), before, held, look(cleaned))
    assert (verdict.ok, verdict.harmed, verdict.why) == (ok, harmed, why)
