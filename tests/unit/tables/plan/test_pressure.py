"""Whether a stream commits faster than its table is put in order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Compact, Pressure
from lakeward.tables.facts import File, Thresholds, summarise
from lakeward.tables.plan.model import Action, NotPlanned, Plan
from lakeward.tables.plan.pressure import pressure

SIZES = Thresholds(target=128, small=96, fragment=16)
DUE = Plan("nyc.flights", 1, (Action("compact", "many fragments"),), ())
ALL = Pressure(lengthen=750, hold=1000)


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
    found = pressure(behind(commits), Compact(), ALL, None, DUE)
    assert (found.level, found.commits) == (level, commits)
    assert bool(found.why) is (level != "ok")


@pytest.mark.parametrize(("limits", "level"), [(Pressure(), "warn"), (Pressure(hold=1000), "hold")])
def test_no_stream_is_slowed_down_unasked(behind, limits, level):
    assert pressure(behind(2000), Compact(), limits, None, DUE).level == level


def test_a_stream_does_not_wait_for_a_rewrite_that_is_not_due(behind):
    rests = Plan("nyc.flights", 1, (), (NotPlanned("compact", "held by a person until 2026-03-02 08:00"),))
    found = pressure(behind(2000), Compact(), ALL, None, rests)
    assert found.level == "warn"
    assert found.why.endswith("not slowed down, no rewrite is due: held by a person until 2026-03-02 08:00")


def test_a_good_rewrite_begins_the_count_again(behind, now):
    assert pressure(behind(1000), Compact(), ALL, now - timedelta(seconds=400), DUE).level == "ok"


def test_a_stream_of_large_files_may_go_on_for_ever(behind):
    assert pressure(behind(2000, fragments=49), Compact(), ALL, None, DUE).level == "ok"


@pytest.mark.parametrize(("limits", "level"), [(Pressure(lengthen=300), "lengthen"), (Pressure(hold=300), "hold")])
def test_a_limit_below_that_of_the_warning_counts(behind, limits, level):
    assert pressure(behind(400), Compact(), limits, None, DUE).level == level
