"""Which offsets must be accounted for, and when nobody can say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakeward.quality.engine.custom.landed import Uncountable, commits, parts, stretches
from lakeward.quality.ranges.range import Read, decide
from lakeward.quality.ranges.snapshot_chain import Mark


def batch(seq: int, start: int | None, end: int, **more: Any) -> dict[str, Any]:
    told = {"consumed": end - (start or 0), "filtered": 0, "skipped": None}
    return {
        "seq": seq,
        "start_offsets": {"s": "-" if start is None else json.dumps({"t": {"0": start}})},
        "end_offsets": {"s": json.dumps({"t": {"0": end}})},
        **told,
        **more,
    }


def moved(*found: Any) -> list[dict[Any, Any]]:
    return [dict(each.moved) for each in found]


def test_a_stretch_reaches_from_the_end_of_the_batch_before_it_so_that_nothing_is_lost_between_two_runs() -> None:
    rows = [batch(4, 0, 100), batch(5, 110, 120), batch(6, 120, 150)]
    (found,) = stretches("f", [5, 6], rows)
    assert moved(found) == [{("t", 0): (100, 150)}] and found.offsets == 50
    assert found.holes == 0, "what lies between two batches is missing, and no offset without a record"
    (alone,) = stretches("f", [5, 6], rows[1:])
    assert moved(alone) == [{("t", 0): (110, 150)}]


def test_a_batch_given_up_belongs_to_the_stretch_and_a_reset_ends_it() -> None:
    rows = [batch(1, None, 10), batch(2, 10, 30, skipped=20, consumed=0), batch(3, 30, 40), batch(5, 5, 12)]
    first, second = stretches("f", [1, 3, 5], rows)
    assert (first.from_seq, first.to_seq, first.skipped, first.holes) == (1, 3, 20, 0)
    assert moved(first, second) == [{("t", 0): (0, 40)}, {("t", 0): (5, 12)}]


def test_offsets_without_a_record_are_counted_apart() -> None:
    (found,) = stretches("f", [1], [batch(1, 0, 10, consumed=7, filtered=2)])
    assert (found.holes, found.filtered) == (3, 2)
    given_up = [batch(1, 0, 10), batch(2, 10, 14, consumed=0, skipped=3), batch(3, 14, 20, consumed=5)]
    (run,) = stretches("f", [1, 3], given_up)
    assert (run.skipped, run.holes) == (3, 2), "a skipped batch counts records too"
    (unknown,) = stretches("f", [1], [batch(1, 0, 10, filtered=None)])
    assert unknown.filtered is None


def test_a_batch_the_registry_lost_is_an_error_at_an_end_and_a_missing_count_in_between() -> None:
    rows = [batch(1, 0, 10), batch(2, 10, 20), batch(3, 20, 30)]
    (found,) = stretches("f", [1, 2, 3], [rows[0], rows[2]])
    assert found.offsets == 30 and found.filtered is None and found.consumed is None
    with pytest.raises(Uncountable, match="batch seq 3 of stream f"):
        stretches("f", [1, 2, 3], rows[:2])


def test_positions_of_files_are_no_numbers() -> None:
    odd = batch(1, 0, 1, end_offsets={"s": "12:abcdef"})
    with pytest.raises(Uncountable, match="does not read from Kafka"):
        stretches("f", [1], [odd])


def test_commits_of_somebody_else_are_read_around(line) -> None:
    history = line("append", "append", "append", "replace", "append")
    found = decide(history, [Mark(1, 1)])
    by = history.snapshots
    assert parts(found, []) == [Read(1, 5)]
    assert parts(found, [by[3]]) == [Read(1, 2), Read(3, 5)]
    assert parts(found, [by[2], by[3]]) == [Read(3, 5)]
    assert parts(found, [by[5]]) == [Read(1, 4)]
    first = decide(history, [])
    assert parts(first, [by[1]]) == [Read(1, 5)] and parts(first, []) == [Read(None, 5)]


def test_an_overwrite_or_an_expired_beginning_cannot_be_known(line) -> None:
    assert [each.id for each in commits(decide(line("append", "replace", "append"), []))] == [1, 3]
    with pytest.raises(Uncountable, match="snapshot 2 is an overwrite"):
        commits(decide(line("append", "overwrite"), [Mark(1, 1)]))
    with pytest.raises(Uncountable, match="expired"):
        commits(decide(line("append", "append", "append", gone=1), []))
    cut = decide(line("append", "append", "append", gone=1), [Mark(9, 1)])
    with pytest.raises(Uncountable):
        commits(replace(cut, base=None))
