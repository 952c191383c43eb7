"""Random schedules of commits, refs, readers, deaths, expiry and orphan removal: nothing needed is ever taken.

The long run over 10,000 seeds is `tests/faults/schedules.py`.
"""

from __future__ import annotations

import pytest
from table_schedule import PLANTED, Schedule


def test_nothing_anybody_needs_is_taken():
    done = [Schedule(seed) for seed in range(100)]
    assert [wrong for each in done if (wrong := each.run())] == []
    assert sum(each.expired for each in done) > 20, "expiry must have been tempted"
    assert sum(each.taken for each in done) > 20, "orphan removal must have been tempted"


FOUND_AT = {
    "no readers": 4, "no staged batches": 7, "no publications": 3, "no positions": 448, "no refs": 11,
    "metadata before listing": 181, "no age": 1, "main only": 7, "no second look": 28,
}  # fmt: skip
"""The first seed that finds each planted fault; `python tests/faults/schedules.py --planted` looks for it again."""


@pytest.mark.parametrize("planted", PLANTED)
def test_a_guard_that_is_taken_out_is_found(planted):
    assert Schedule(FOUND_AT[planted], planted).run(), f"not at this seed: look for another ({planted})"
    assert not Schedule(FOUND_AT[planted]).run()
