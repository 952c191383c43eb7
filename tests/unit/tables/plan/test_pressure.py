"""Whether a stream commits faster than its table is put in order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.spec.policy import Compact
from lakeward.tables.facts import File, Thresholds, summarise
from lakeward.tables.plan.pressure import pressure

SIZES = Thresholds(target=128, small=96, fragment=16)


@pytest.fixture
def behind(facts, chain, now):
    """A table of so many commits, a second apart, with so many fragments."""

    def make(commits: int, fragments: int = 60):
        part = summarise("", "", [File(1, 1, now)] * fragments, SIZES)
        return facts(chain(commits, every=timedelta(seconds=1)), partitions=(part,), thresholds=SIZES)

    return make


@pytest.mark.parametrize(
    ("commits", "level"),
    [(499, "ok"), (500, "warn"), (749, "warn"), (750, "lengthen"), (999, "lengthen"), (1000, "hold")],
)
def test_the_verdict_grows_with_the_commits(behind, commits, level):
    found = pressure(behind(commits), Compact(), None)
    assert (found.level, found.commits) == (level, commits)
    assert bool(found.why) is (level != "ok")


def test_a_good_rewrite_begins_the_count_anew(behind, now):
    assert pressure(behind(1000), Compact(), now - timedelta(seconds=400)).level == "ok"


def test_a_stream_of_large_files_may_go_on_for_ever(behind):
    assert pressure(behind(2000, fragments=49), Compact(), None).level == "ok"
