from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lakeward.quality.ranges.first_bad import (
    MOST_SINGLE,
    Failed,
    OldestFailingRow,
    PreviousFindings,
    known_before,
    remembered,
    search,
)
from lakeward.quality.ranges.range import Read, decide
from lakeward.quality.ranges.snapshot_chain import Mark


class Probes:
    """Answers from a set of bad snapshots, as a table of appends would."""

    def __init__(self, bad: set[int], broken: bool = False) -> None:
        self.bad, self.broken, self.requests = bad, broken, 0

    def __call__(self, read: Read, checks) -> bool | None:
        self.requests += 1
        return None if self.broken else any((read.start or 0) < each <= read.end for each in self.bad)


@pytest.mark.parametrize("seed", range(20))
def test_halving_finds_the_first_bad_snapshot_in_few_probes(line, seed: int) -> None:
    chance = random.Random(seed)
    operations = ["append", *chance.choices(["append", "replace"], k=200)]
    history = line(*operations)
    found = decide(history, [Mark(1, 1)])
    bad = set(chance.sample([each.id for each in found.appends], 3))
    probes = Probes(bad)
    assert search(found, Failed(strict=("a",)), probes) == min(bad)
    assert probes.requests <= 8


@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_good_is_not_read_again(line, seed: int) -> None:
    chance = random.Random(seed)
    found = decide(line(*["append"] * 65), [Mark(1, 1)] if seed % 2 else [])
    bad = set(chance.sample([each.id for each in found.appends], 3))
    rows: list[int] = []

    def probe(read: Read, checks) -> bool:
        rows.append(read.end - (read.start or 0))
        return any((read.start or 0) < each <= read.end for each in bad)

    assert search(found, Failed(alone=("a",)), probe) == min(bad)
    assert sum(rows) <= 65 + 7, "as many snapshots as there are, read once, but for half of one a probe"


def test_a_duplicate_of_an_early_row_is_found_only_with_that_row(line) -> None:
    found = decide(line(*["append"] * 20), [Mark(1, 1)])
    twice = (3, 17)  # one row in each, of the same key

    def probe(read: Read, checks) -> bool:
        return all((read.start or 0) < each <= read.end for each in twice)

    assert search(found, Failed(strict=("unique",)), probe) == 17


def test_tolerant_checks_are_probed_one_by_one(line) -> None:
    found = decide(line(*["append"] * 10), [Mark(1, 1)])
    assert search(found, Failed(tolerant=("a",)), Probes({4, 7})) == 4
    assert search(found, Failed(tolerant=("a",)), Probes(set())) is None, "no single snapshot fails, only all together"


def test_many_snapshots_are_not_probed_one_by_one(line) -> None:
    found = decide(line(*["append"] * (MOST_SINGLE + 3)), [Mark(1, 1)])
    probes = Probes({4})
    assert search(found, Failed(tolerant=("a",)), probes) is None
    assert probes.requests == 0


def test_the_earlier_of_both_kinds_counts(line) -> None:
    found = decide(line(*["append"] * 6), [Mark(1, 1)])

    def probe(read: Read, checks) -> bool:
        return (read.start or 0) < (3 if "tolerant" in checks else 5) <= read.end

    assert search(found, Failed(strict=("strict",), tolerant=("tolerant",)), probe) == 3
    assert search(found, Failed(alone=("alone",), tolerant=("tolerant",)), probe) == 3


def test_no_answer_of_the_engine_is_no_answer(line) -> None:
    found = decide(line(*["append"] * 6), [Mark(1, 1)])
    assert search(found, Failed(strict=("a",)), Probes({3}, broken=True)) is None
    assert search(found, Failed(tolerant=("a",)), Probes({3}, broken=True)) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_oldest_failing_row_says_what_halving_finds(line, seed: int) -> None:
    chance = random.Random(seed)
    history = line("append", *chance.choices(["append", "replace"], k=60), "append", traced=1)
    found = decide(history, [Mark(1, 1)])
    bad = set(chance.sample([each.id for each in found.appends], 2))
    halved = search(found, Failed(alone=("a",)), Probes(bad))
    probes = Probes(bad)
    assert search(found, Failed(alone=("a",)), probes, OldestFailingRow(min(bad), remembered(history, []))) == halved
    assert probes.requests == 0


def test_other_checks_may_fail_before_the_oldest_failing_row(line) -> None:
    history = line(*["append"] * 8, traced=1)
    found, known = decide(history, [Mark(1, 1)]), remembered(history, [])
    assert search(found, Failed(alone=("a",), strict=("unique",)), Probes({3}), OldestFailingRow(6, known)) == 3
    assert search(found, Failed(alone=("a",), tolerant=("mostly",)), Probes({4}), OldestFailingRow(6, known)) == 4


def test_lineage_tells_the_snapshot_of_a_rewrite_and_one_that_is_expired(line) -> None:
    history = line("append", "append", "overwrite", "append", traced=1)
    found = decide(history, [Mark(1, 1)])
    assert search(found, Failed(alone=("a",)), Probes({2}), OldestFailingRow(3, remembered(history, []))) == 3
    left = line(*["append"] * 5, gone=2, traced=1)
    whole = decide(left, [])
    assert search(whole, Failed(alone=("a",)), Probes({2}), OldestFailingRow(2, {2: 77})) == 77
    assert search(whole, Failed(alone=("a",)), Probes({2}), OldestFailingRow(2, {})) is None
    assert search(whole, Failed(alone=("a",)), Probes({3}), OldestFailingRow(3, remembered(left, []))) == 3


def test_only_runs_on_this_very_table_are_remembered(line) -> None:
    history = line(*["append"] * 9, gone=7)
    assert remembered(history, []) == {8: 8, 9: 9}
    ours = [(7, 9, 9), (70, 71, 6), (4, 7, 7), (4, 5, 5), (None, 4, 4)]
    assert remembered(history, ours) == {8: 8, 9: 9, 7: 7, 5: 5, 4: 4}, "71 is of a table that had the name before"


def test_rewritten_rows_belong_to_no_snapshot(line) -> None:
    found = decide(line("append", "append", "overwrite", "append"), [Mark(1, 1)])
    assert search(found, Failed(strict=("a",)), Probes({2})) is None


def test_the_first_check_searches_from_the_beginning(line) -> None:
    found = decide(line(*["append"] * 5), [])
    assert search(found, Failed(strict=("a",)), Probes({1, 3})) == 1


def test_rows_older_than_every_snapshot_left_have_no_first_snapshot(line) -> None:
    found = decide(line(*["append"] * 5, gone=2), [])
    assert search(found, Failed(strict=("a",)), Probes({3})) is None
    assert search(found, Failed(strict=("a",)), Probes({4})) == 4


def test_checks_of_aggregates_belong_to_no_snapshot(line) -> None:
    found = decide(line("append", "append"), [Mark(1, 1)])
    assert search(found, Failed(), Probes({2})) is None


def test_without_rows_there_is_nothing_to_find(line) -> None:
    found = decide(line("append", "replace"), [Mark(1, 1)])
    assert search(replace(found), Failed(strict=("a",)), Probes({2})) is None


@pytest.mark.parametrize(
    ("before", "known"),
    [
        (PreviousFindings(1, 3, frozenset("a")), 3),
        (PreviousFindings(1, 3, frozenset("ab")), None),  # another check was the one that began there, perhaps
        (PreviousFindings(1, 3, frozenset()), None),
        (PreviousFindings(2, 3, frozenset("a")), None),
        (PreviousFindings(1, None, frozenset("a")), None),
        (PreviousFindings(1, 9, frozenset("a")), None),  # it is not of this range
        (None, None),
    ],
)
def test_what_the_last_run_found_is_not_searched_for_again_while_the_range_only_grows(line, before, known) -> None:
    found = decide(line("append", "append", "append", "replace", "append"), [Mark(1, 1)])
    assert known_before(found, {"a"}, before) == known
    rewritten = decide(line("append", "append", "append", "overwrite"), [Mark(1, 1)])
    assert known_before(rewritten, {"a"}, before) is None
