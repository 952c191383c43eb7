"""Which figures of a write prove a clean batch, and which batches are landed in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from lakeward.engine.one_pass import CLEAN_BATCHES, Doubt, Figures, OnePass, judge

CLEAN = Figures(consumed=10, bad=0, partitions=(0, 1), out=8, broken=0)
"""Two records were filtered; the offsets of the batch have two holes."""


@pytest.mark.parametrize(
    ("seen", "landed", "most", "doubt"),
    [
        (CLEAN, 8, 12, None),
        (CLEAN, 8, 10, None),
        (CLEAN, 8, None, None),  # a source whose positions do not say how many records there are
        (Figures(0, 0, (), 0, 0), 0, 3, None),  # holes only: no partition has a record
        (None, 8, 12, Doubt.MISSING),
        (replace(CLEAN, bad=1), 8, 12, Doubt.INVALID),
        (replace(CLEAN, broken=1), 7, 12, Doubt.INVALID),
        (replace(CLEAN, partitions=(0, 1, 0)), 8, 12, Doubt.TWICE),  # all rows of partition 0 were filtered
        (replace(CLEAN, out=9), 8, 12, Doubt.DISAGREE),
        (replace(CLEAN, out=7), 8, 12, Doubt.DISAGREE),
        (replace(CLEAN, consumed=13), 8, 12, Doubt.DISAGREE),
        (replace(CLEAN, consumed=7), 8, 12, Doubt.DISAGREE),
    ],
)
def test_figures_prove_a_clean_batch_only_if_they_agree_with_what_is_exact(
    seen: Figures | None, landed: int, most: int | None, doubt: Doubt | None
) -> None:
    assert judge(seen, landed, most) == doubt


def test_a_recount_that_fills_the_holes_of_the_offsets_exactly_is_no_proof() -> None:
    """Transactions of one record each: half of the offsets are markers. Counted twice, they are as many as offsets."""
    twice = Figures(consumed=10, bad=0, partitions=(0, 0), out=5, broken=0)
    assert judge(twice, 5, 10) is Doubt.TWICE


def test_an_unclean_stream_does_not_pay_twice_for_each_batch() -> None:
    chosen = OnePass(cast(Any, None), possible=True)
    assert not chosen.due, "the first batch of a start may have landed before"
    chosen.counted(clean=True)
    assert chosen.due
    chosen.failed()
    for _ in range(CLEAN_BATCHES - 1):
        chosen.counted(clean=True)
    assert not chosen.due
    chosen.counted(clean=False)
    for _ in range(CLEAN_BATCHES - 1):
        chosen.counted(clean=True)
    assert not chosen.due
    chosen.counted(clean=True)
    assert chosen.due


def test_a_stream_that_does_not_suit_is_always_counted_by_queries() -> None:
    chosen = OnePass(cast(Any, None), possible=False)
    for _ in range(2 * CLEAN_BATCHES):
        chosen.counted(clean=True)
    assert not chosen.due
