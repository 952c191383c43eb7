from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.quality.ranges.snapshot_chain import Cut, History, Mark, between


def ids(chain) -> list[int]:
    return [each.id for each in chain.snapshots]


def branched(line) -> History:
    """Main went 1 2 3, was rolled back to 2 and went on with 4; 3 is still in the metadata."""
    history = line("append", "append", "append", "append")
    history.snapshots[4] = replace(history.snapshots[4], parent=2)
    return history


def test_a_chain_is_start_exclusive_end_inclusive_oldest_first(line) -> None:
    history = line("append", "replace", "append")
    assert ids(between(history, Mark(1, 1), 3)) == [2, 3]
    assert ids(between(history, Mark(3, 3), 3)) == []
    assert ids(between(history, None, 3)) == [1, 2, 3]


def test_an_expired_start_is_fine_while_its_child_stands(line) -> None:
    chain = between(line("append", "append", "append", gone=1), Mark(1, 1), 3)
    assert (ids(chain), chain.cut) == ([2, 3], None)


@pytest.mark.parametrize("gone", [2, 3])
def test_a_chain_cut_by_expiry(line, gone: int) -> None:
    chain = between(line(*["append"] * 4, gone=gone), Mark(1, 1), 4)
    assert chain.cut is Cut.EXPIRED
    assert ids(chain) == list(range(gone + 1, 5))


def test_a_start_a_branch_kept_does_not_hide_that_the_chain_is_cut(line) -> None:
    history = line(*["append"] * 4)
    del history.snapshots[2]
    assert between(history, Mark(1, 1), 4).cut is Cut.EXPIRED


def test_a_start_main_went_round_was_rolled_back(line) -> None:
    chain = between(branched(line), Mark(3, 3), 4)
    assert (chain.cut, ids(chain)) == (Cut.ROLLED_BACK, [4])


def test_a_start_rolled_back_and_expired_is_distinguished_from_expiry(line) -> None:
    history = branched(line)
    history = replace(history, snapshots={at: each for at, each in history.snapshots.items() if at != 3})
    assert between(history, Mark(3, 3), 4).cut is Cut.ROLLED_BACK


def test_an_end_before_the_start_is_the_wrong_order(line) -> None:
    assert between(line("append", "append", "append"), Mark(3, 3), 2).cut is Cut.WRONG_ORDER


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_replaced_table_begins_again(line, forgotten: bool) -> None:
    history = line("append", "append", "append")
    history.snapshots[3] = replace(history.snapshots[3], parent=None)
    if forgotten:
        del history.snapshots[1], history.snapshots[2]
    assert between(history, Mark(2, 2), 3).cut is Cut.REPLACED


def test_without_sequence_numbers_the_walk_goes_to_the_root(line) -> None:
    history = branched(line)
    for key, each in list(history.snapshots.items()):
        history.snapshots[key] = replace(each, sequence=None)
    assert between(history, Mark(3, None), 4).cut is Cut.ROLLED_BACK
    assert ids(between(history, Mark(1, None), 4)) == [2, 4]


def test_on_main(line) -> None:
    history = branched(line)
    assert [each for each in range(1, 6) if history.on_main(each)] == [1, 2, 4]


def test_a_history_up_to_a_snapshot_ends_there_unless_that_is_off_main_or_proven(line) -> None:
    history = line("append", "append", "append", "append")
    assert [history.up_to(each).head for each in (2, None, 7)] == [2, 4, 4]
    assert replace(history, verified=3).up_to(2).head == 4
    assert branched(line).up_to(3).head == 4
