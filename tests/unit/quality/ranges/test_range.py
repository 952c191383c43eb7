from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.quality.ranges.range import WINDOW, Kind, Read, decide, reading
from lakeward.quality.ranges.snapshot_chain import Cut, Mark


def test_nothing_new_is_an_empty_range(line) -> None:
    found = decide(line("append", "append"), [Mark(2, 2)])
    assert (found.kind, found.snapshots, found.rows) == (Kind.EMPTY, (), 0)


def test_a_table_without_a_snapshot_is_empty(line) -> None:
    assert decide(line(), []).kind is Kind.EMPTY


def test_the_first_check_reads_the_table(line) -> None:
    found = decide(line("append", "append"), [])
    assert (found.kind, found.base, found.rows) == (Kind.TABLE, None, 20)


def test_a_branch_nobody_proved_is_no_base(line) -> None:
    found = decide(line("append", "append", verified=2), [])
    assert found.kind is Kind.TABLE and "not created by Lakeward" in found.why


def test_appends_and_compactions_are_an_increment(line) -> None:
    history = line("append", "append", "replace", "append")
    found = decide(history, [Mark(1, 1)])
    assert (found.kind, found.rows, [each.id for each in found.appends]) == (Kind.INCREMENT, 20, [2, 4])
    assert reading(found, history, "increment", history.snapshots[4].at) == Read(1, 4)


def test_a_compaction_alone_leaves_nothing_to_read(line) -> None:
    history = line("append", "replace")
    found = decide(history, [Mark(1, 1)])
    assert found.kind is Kind.INCREMENT
    assert reading(found, history, "increment", history.snapshots[2].at) is None


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_rows_rewritten_in_place_need_the_whole_table(line, operation: str) -> None:
    history = line("append", "append", operation)
    found = decide(history, [Mark(1, 1)])
    assert found.kind is Kind.TABLE and operation in found.why
    assert reading(found, history, "increment", history.snapshots[3].at) == Read(None, 3)


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_rows_rewritten_in_place_are_found_by_their_lineage(line, operation: str) -> None:
    history = line("append", "append", operation, "append", traced=4)
    found = decide(history, [Mark(1, 1)])
    assert (found.kind, found.rows) == (Kind.CHANGES, None) and "by row lineage" in found.why
    assert reading(found, history, "increment", history.snapshots[4].at) == Read(None, 4, since=1)
    assert [each.id for each in found.writes] == ([2, 3, 4] if operation == "overwrite" else [2, 4])


def test_without_lineage_at_the_head_or_a_place_in_the_order_the_whole_table_is_read(line) -> None:
    operations = ("append", "overwrite", "append")
    untraced = decide(line(*operations), [Mark(1, 1)])
    assert untraced.kind is Kind.TABLE and "no row lineage" in untraced.why
    unplaced = decide(line(*operations, traced=1), [Mark(1, None)])
    assert unplaced.kind is Kind.TABLE and "sequence number" in unplaced.why


def test_lineage_is_not_believed_beside_a_compaction_that_changed_the_row_count(line) -> None:
    history = line("append", "append", "overwrite", "replace", traced=1)
    history.snapshots[4] = replace(history.snapshots[4], total=9)
    found = decide(history, [Mark(1, 1)])
    assert found.kind is Kind.TABLE and "changed the row count" in found.why


def test_deletes_alone_leave_nothing_to_read(line) -> None:
    history = line("append", "delete", traced=1)
    found = decide(history, [Mark(1, 1)])
    assert (found.kind, found.rows) == (Kind.CHANGES, 0)
    assert reading(found, history, "increment", history.snapshots[2].at) is None


def test_after_a_cut_nothing_is_found_by_lineage(line) -> None:
    found = decide(line(*["append"] * 4, gone=2, traced=1), [Mark(1, 1)])
    assert found.kind is Kind.TABLE, "main may have gone back below the proof: rows that were gone may stand again"


@pytest.mark.parametrize("first", [True, False])
def test_a_compaction_that_changed_the_row_count_is_not_believed(line, first: bool) -> None:
    history = line("append", "replace", "append") if first else line("append", "append", "replace")
    odd = 2 if first else 3
    history.snapshots[odd] = replace(history.snapshots[odd], total=9)
    found = decide(history, [Mark(1, 1)])
    assert found.kind is Kind.TABLE and "changed the row count" in found.why


def test_a_compaction_that_applied_deletes_may_change_the_row_count(line) -> None:
    history = line("append", "append", "replace")
    history.snapshots[2] = replace(history.snapshots[2], delete_files=1)
    history.snapshots[3] = replace(history.snapshots[3], total=19)
    assert decide(history, [Mark(1, 1)]).kind is Kind.INCREMENT


def test_after_a_rollback_the_newest_proof_on_main_is_the_base(line) -> None:
    history = line("append", "append", "append", "append")
    history.snapshots[4] = replace(history.snapshots[4], parent=2)
    found = decide(history, [Mark(3, 3), Mark(2, 2), Mark(1, 1)])
    assert (found.kind, found.base, found.cut) == (Kind.INCREMENT, Mark(2, 2), Cut.ROLLED_BACK)
    assert "rolled back" in found.why and "3" in found.why


def test_a_rollback_to_an_older_proof_is_reported_as_such(line) -> None:
    history = replace(line("append", "append", "append"), head=2)
    found = decide(history, [Mark(3, 3), Mark(2, 2)])
    assert (found.kind, found.base, found.cut) == (Kind.EMPTY, Mark(2, 2), Cut.WRONG_ORDER)


def test_a_cut_chain_reads_the_whole_table(line) -> None:
    found = decide(line(*["append"] * 4, gone=2), [Mark(1, 1)])
    assert (found.kind, found.base, found.cut) == (Kind.TABLE, None, Cut.EXPIRED)
    assert "before they were checked" in found.why


class TestReading:
    def test_the_table(self, line) -> None:
        history = line("append", "append")
        found = decide(history, [Mark(1, 1)])
        assert reading(found, history, "table", history.snapshots[2].at) == Read(None, 2)

    def test_a_window_looks_back_over_what_is_proven(self, line) -> None:
        history = line(*["append"] * 40)
        found = decide(history, [Mark(39, 39)])
        assert reading(found, history, "window", history.snapshots[40].at) == Read(16, 40), "16 is 24 hours old"

    def test_a_window_is_never_less_than_the_range(self, line) -> None:
        history = line(*["append"] * 40)
        found = decide(history, [Mark(3, 3)])
        assert reading(found, history, "window", history.snapshots[40].at) == Read(3, 40)

    def test_a_window_to_the_beginning_is_the_table(self, line) -> None:
        history = line("append", "append")
        found = decide(history, [Mark(1, 1)])
        assert reading(found, history, "window", history.snapshots[2].at) == Read(None, 2)

    def test_a_window_with_rewritten_rows_is_the_table(self, line) -> None:
        history = line(*["append"] * 30, "overwrite", "append")
        found = decide(history, [Mark(31, 31)])
        assert reading(found, history, "window", history.snapshots[32].at + WINDOW / 2) == Read(None, 32)
        traced = line(*["append"] * 30, "overwrite", "append", traced=1)
        found = decide(traced, [Mark(31, 31)])
        assert reading(found, traced, "window", traced.snapshots[32].at + WINDOW / 2) == Read(None, 32, since=20)
        late = history.snapshots[32].at + WINDOW + timedelta(hours=1)
        assert reading(found, history, "window", late) == Read(31, 32)
