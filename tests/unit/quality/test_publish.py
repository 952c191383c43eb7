from __future__ import annotations

from dataclasses import replace

from lakeward.quality.lineage import History, Mark
from lakeward.quality.publish import advance, settle


def rolled_back(line, verified: int | None) -> History:
    """Main went 1 2 3, back to 2, and on with 4."""
    history = line(*["append"] * 4, verified=verified)
    history.snapshots[4] = replace(history.snapshots[4], parent=2)
    return history


class TestAdvance:
    def test_creates_and_moves(self, line) -> None:
        assert advance(line("append", "append"), 2).to == 2
        assert advance(line("append", "append", verified=1), 2).to == 2

    def test_never_beyond_what_was_checked(self, line) -> None:
        assert advance(line(*["append"] * 5, verified=1), 3).to == 3

    def test_twice_is_once(self, line) -> None:
        assert advance(line("append", "append", verified=2), 2).to is None

    def test_leaves_what_a_newer_run_moved(self, line) -> None:
        assert advance(line(*["append"] * 3, verified=3), 2).to is None

    def test_does_not_publish_what_left_main(self, line) -> None:
        move = advance(rolled_back(line, verified=1), 3)
        assert move.to is None and "left main" in move.why

    def test_comes_back_to_main(self, line) -> None:
        move = advance(rolled_back(line, verified=3), 4)
        assert move.to == 4 and "off main" in move.why


class TestSettle:
    def test_agreement_is_left_alone(self, line) -> None:
        assert settle(line("append", "append", verified=1), Mark(1, 1)).to is None

    def test_without_proof_nothing_moves(self, line) -> None:
        assert settle(line("append", verified=1), None).to is None

    def test_the_results_win(self, line) -> None:
        for stands in (None, 1, 3):
            move = settle(line(*["append"] * 3, verified=stands), Mark(2, 2))
            assert move.to == 2 and "repaired" in move.why

    def test_not_to_a_snapshot_that_is_gone_or_off_main(self, line) -> None:
        assert settle(line(*["append"] * 3, gone=1), Mark(1, 1)).to is None
        assert settle(rolled_back(line, verified=None), Mark(3, 3)).to is None
