"""When delete files are merged, and when files are rewritten for their deleted rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Compact, Deletes
from lakeward.tables.facts import DeleteFiles, File, Thresholds, summarise
from lakeward.tables.plan.compact import judge, plan_compact
from lakeward.tables.plan.deletes import plan_deletes
from lakeward.tables.plan.model import Action, History, NotPlanned

SIZES = Thresholds(target=128, small=96, fragment=16)


@pytest.fixture
def table(facts, chain, now):
    """A table of partitions, each with so many delete files and so many more than needed."""

    def make(*deletes: tuple[int, int], where: str | None = "`p` = 1", **more):
        files = [File(100, 10, now)]
        parts = tuple(
            summarise(f"p={n}", where, files, SIZES, DeleteFiles(*each)) for n, each in enumerate(deletes, start=1)
        )
        return facts(chain(3), partitions=parts, thresholds=SIZES, **more)

    return make


def test_delete_files_are_merged_where_five_are_too_many(table, now):
    found = plan_deletes(table((6, 5), (20, 4), (30, 19)), Deletes(), History(), now)
    assert isinstance(found, Action)
    assert (found.partitions, found.files, found.where) == (("p=3", "p=1"), 24, ("`p` = 1", "`p` = 1"))
    assert found.why == "30 delete files, 19 more than needed in the fullest of 2 partitions"


def test_what_a_merge_leaves_is_not_merged_again(table, now):
    found = plan_deletes(table((1, 0), (200, 0)), Deletes(), History(), now)
    assert isinstance(found, NotPlanned)
    assert found.why.endswith("0 more than one partition needs (limit 5)")


def test_a_partition_no_condition_selects_takes_the_whole_table(table, now):
    found = plan_deletes(table((6, 5), where=None), Deletes(), History(), now)
    assert isinstance(found, Action)
    assert found.where == ()


def test_a_partition_field_with_a_backtick_is_not_merged(table, now):
    found = plan_deletes(replace(table((6, 5)), partition_fields=("p", "a`b")), Deletes(), History(), now)
    assert isinstance(found, NotPlanned)
    assert found.why.startswith("Iceberg cannot merge them: partition field a`b has a backtick in its name")


def test_a_table_whose_columns_spark_takes_for_one_is_not_merged(table, now):
    found = plan_deletes(replace(table((6, 5)), columns=("Id", "id")), Deletes(), History(), now)
    assert isinstance(found, NotPlanned)
    assert "columns Id and id differ in case only" in found.why


def test_merges_are_an_hour_apart(table, now):
    done = History(done={"deletes": now - timedelta(minutes=20)})
    found = plan_deletes(table((6, 5)), Deletes(), done, now)
    assert isinstance(found, NotPlanned)
    assert (found.why.split(", but ")[1], found.next_at) == ("merged 20 min ago", now + timedelta(minutes=40))


def test_only_the_named_partitions_are_merged(table, now):
    found = plan_deletes(table((6, 5), (6, 5)), Deletes(), History(), now, only=["p=2"])
    assert isinstance(found, Action)
    assert found.partitions == ("p=2",)


@pytest.fixture
def part(now):
    """A partition of good files, of which so many rows of ten are deleted in each."""

    def make(*deleted: int, rewritten: timedelta | None = None):
        files = [File(120, 10, now - timedelta(minutes=5), deleted=each) for each in deleted]
        if rewritten is not None:
            files.append(File(120, 10, now - rewritten, rewritten=True))
        return summarise("p=1", "`p` = 1", files, SIZES)

    return make


@pytest.mark.parametrize(("deleted", "mode"), [((0, 0), ""), ((1, 0), "deletes"), ((9, 10), "deletes")])
def test_a_file_with_a_tenth_of_its_rows_deleted_is_rewritten(part, now, deleted, mode):
    found = judge(part(*deleted), Compact(), SIZES, None, now)
    assert found.mode == mode
    assert found.files == (sum(each > 0 for each in deleted) if mode else 0)


def test_only_such_files_are_taken(part, facts, chain, now):
    made = plan_compact(facts(chain(3), partitions=(part(5, 0, 4),), thresholds=SIZES), Compact(), History(), now)
    assert isinstance(made, Action)
    (rewrite,) = made.rewrites
    assert (rewrite.mode, rewrite.below, rewrite.takes, rewrite.gives) == ("deletes", 0, 2, 2)
    assert made.why == "10% or more of the rows of 2 files are deleted"


def test_deleted_rows_wait_for_the_cooldown_and_for_a_contested_partition(part, now):
    found = judge(part(5, rewritten=timedelta(minutes=10)), Compact(), SIZES, None, now)
    assert (found.mode, found.next_at) == ("", now + timedelta(minutes=20))
    lost = judge(part(5), Compact(), SIZES, None, now, failed=(2, now))
    assert lost.mode == ""
