"""When partitions are rewritten; and that a rewrite always ends what asked for it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.spec.model.policy import Compact
from lakeward.spec.model.table_layout import SortOrder
from lakeward.tables.facts import File, PartitionFacts, Thresholds, summarise
from lakeward.tables.plan.compact import AT_ONCE, judge, plan_compact
from lakeward.tables.plan.cost import Pace
from lakeward.tables.plan.model import Action, History, NotPlanned

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MB = 1 << 20
SIZES = Thresholds(target=128 * MB, small=96 * MB, fragment=16 * MB)
POLICY = Compact()


def part(files: list[File], key: str = "p=1", where: str | None = "`p` = 1") -> PartitionFacts:
    return summarise(key, where, files, SIZES)


def raw(count: int, size: int = MB, age: timedelta = timedelta(minutes=5)) -> list[File]:
    return [File(size, 10, NOW - age)] * count


def output(size: int, age: timedelta) -> File:
    return File(size, 10, NOW - age, rewritten=True)


def verdict(files: list[File], finished: datetime | None = None, now: datetime = NOW) -> tuple[str, str]:
    due = judge(part(files), POLICY, SIZES, finished, now)
    return due.mode, due.why


def test_a_hot_partition_is_due_at_fifty_fragments():
    assert verdict(raw(50))[0] == "fragments"
    assert verdict(raw(49))[0] == ""


def test_a_hot_partition_is_due_when_its_fragments_make_more_than_one_good_file():
    assert verdict(raw(12, 14 * MB))[0] == "fragments"
    assert verdict(raw(11, 14 * MB))[0] == ""


def test_one_fragment_is_never_rewritten_for_its_bytes():
    big = Thresholds(target=10, small=1000, fragment=1000)
    assert judge(summarise("p", "x", raw(1, 500), big), POLICY, big, None, NOW).mode == ""


def test_few_fragments_wait_an_hour():
    waiting = [*raw(4), File(MB, 1, NOW - timedelta(minutes=59))]
    due = judge(part(waiting), POLICY, SIZES, None, NOW)
    assert (due.mode, due.next_at) == ("", NOW + timedelta(minutes=1))
    assert judge(part(waiting), POLICY, SIZES, None, NOW + timedelta(minutes=1)).mode == "fragments"


def test_a_rewrite_starts_the_wait_of_the_few_again():
    files = [*raw(5, age=timedelta(minutes=55)), File(20 * MB, 1, NOW - timedelta(minutes=31), rewritten=True)]
    due = judge(part(files), POLICY, SIZES, None, NOW + timedelta(minutes=4))
    assert due.mode == ""
    assert due.next_at == NOW + timedelta(minutes=5)  # cold comes before late here


def test_a_partition_cools_down_unless_it_overflows():
    recent = output(20 * MB, timedelta(minutes=10))
    due = judge(part([*raw(60), recent]), POLICY, SIZES, None, NOW)
    assert (due.mode, due.next_at) == ("", NOW + timedelta(minutes=20))
    assert judge(part([*raw(200), recent]), POLICY, SIZES, None, NOW).mode == "fragments"


def test_a_cold_partition_gets_one_final_pass():
    quiet = raw(5, 50 * MB, timedelta(minutes=61))
    assert verdict(quiet)[0] == "final"
    assert verdict(raw(4, 50 * MB, timedelta(minutes=61)))[0] == ""
    assert verdict(quiet, finished=NOW - timedelta(minutes=10)) == (
        "",
        "nothing was written since its final pass 10 min ago",
    )


def test_a_write_after_the_final_pass_opens_the_partition_again():
    assert verdict(raw(50), finished=NOW - timedelta(minutes=10))[0] == ""  # all five minutes after it, but cooling
    assert verdict(raw(50), finished=NOW - timedelta(minutes=40))[0] == "fragments"


def test_a_partition_from_before_the_history_is_cold():
    assert verdict([File(MB, 1, None)] * 5)[0] == "final"


def test_what_a_rewrite_gave_is_small_only_below_half_of_the_target():
    outputs = [output(70 * MB, timedelta(hours=2))] * 10
    assert part(outputs).small == 0
    assert part(raw(10, 70 * MB)).small == 10


def test_the_fullest_partitions_come_first_and_the_rest_is_reported(facts):
    policy = POLICY.model_copy(update={"max_files": 100})
    parts = tuple(part(raw(50 + n), f"p={n}", f"`p` = {n}") for n in range(3))
    action = plan_compact(facts(partitions=parts), policy, History(), NOW)
    assert isinstance(action, Action)
    assert action.partitions == ("p=2",)
    assert "2 partitions left for the next run" in action.why


def test_named_partitions_alone_are_taken_and_only_when_due(facts):
    parts = (part(raw(90), "p=1", "`p` = 1"), part(raw(60), "p=2", "`p` = 2"), part(raw(3), "p=3", "`p` = 3"))
    found = plan_compact(facts(partitions=parts), POLICY, History(), NOW, ["p=2", "p=3"])
    assert isinstance(found, Action)
    assert found.partitions == ("p=2",)
    assert found.rewrites[0].where == ("`p` = 2",), "the statement is not for the whole table"
    left = plan_compact(facts(partitions=parts), POLICY, History(), NOW, ["p=3"])
    assert isinstance(left, NotPlanned)
    assert left.why.startswith("p=3: 3 of 50 fragments")


def test_many_partitions_are_several_statements(facts):
    parts = tuple(part(raw(50), f"p={n}", f"`p` = {n}") for n in range(AT_ONCE + 5))
    parts = (*parts, part(raw(1), "p=x", "`p` = 'x'"))
    action = plan_compact(facts(partitions=parts), POLICY, History(), NOW)
    assert isinstance(action, Action)
    assert [len(each.where) for each in action.rewrites] == [AT_ONCE, 5]


def test_a_partition_sql_cannot_name_means_the_whole_table(facts):
    action = plan_compact(facts(partitions=(part(raw(50), "p=?", None), part(raw(1)))), POLICY, History(), NOW)
    assert isinstance(action, Action)
    assert action.rewrites[0].where == ()
    alone = plan_compact(facts(partitions=(part(raw(50), "p=?", None), part(raw(1)))), POLICY, History(), NOW, ["p=?"])
    assert isinstance(alone, NotPlanned), "the whole table is not what was asked for"


def test_nothing_due_says_how_far_the_fullest_partition_is(facts):
    found = plan_compact(facts(partitions=(part(raw(3)), part(raw(12), "p=2"))), POLICY, History(), NOW)
    assert isinstance(found, NotPlanned)
    assert found.why.startswith("p=2: 12 of 50 fragments")
    assert found.next_at == NOW + timedelta(minutes=55)


def test_switched_off_and_empty_tables_say_so(facts):
    off = POLICY.model_copy(update={"enabled": False})
    assert plan_compact(facts(), off, History(), NOW).why == "switched off by policy"
    assert plan_compact(facts(), POLICY, History(), NOW).why == "the table has no files"


def test_a_run_takes_no_more_than_this_table_manages_in_its_time(facts):
    parts = tuple(part(raw(50, 10 * MB), f"p={n}", f"`p` = {n}") for n in range(3))
    slow = History(paces={"compact": Pace(2.0, 0.3 * MB, 9)})  # 2,700 s make 810 MB, one partition has 500
    action = plan_compact(facts(partitions=parts), POLICY, slow, NOW)
    assert isinstance(action, Action)
    assert len(action.partitions) == 1
    assert len(plan_compact(facts(partitions=parts), POLICY, History(), NOW).partitions) == 3


def test_a_partition_that_lost_two_races_waits_until_no_one_writes_it_but_not_for_ever():
    hot = part(raw(300))
    lost = NOW - timedelta(hours=1)
    assert judge(hot, POLICY, SIZES, None, NOW, (1, lost)).mode == "fragments"
    waiting = judge(hot, POLICY, SIZES, None, NOW, (2, lost))
    assert (waiting.mode, waiting.next_at) == ("", NOW + timedelta(minutes=55))
    assert "its rewrite failed 2 times" in waiting.why
    assert judge(hot, POLICY, SIZES, None, NOW + timedelta(minutes=55), (2, lost)).mode == "final"
    assert judge(hot, POLICY, SIZES, None, NOW, (2, NOW - timedelta(hours=6))).mode == "fragments"


class Simulated:
    """One partition as Iceberg would leave it after each planned rewrite."""

    def __init__(self, files: list[File], shrink: float) -> None:
        self.files, self.shrink, self.finished = files, shrink, None
        self.now = NOW

    def step(self) -> bool:
        """Plan, apply; whether anything was done."""
        due = judge(part(self.files), POLICY, SIZES, self.finished, self.now)
        if not due.mode:
            return False
        below = SIZES.fragment if due.mode == "fragments" else SIZES.small
        taken = [each for each in self.files if each.size < below]
        assert len(taken) >= 2, "a rewrite of one file changes nothing"
        assert sum(each.records for each in taken) > 0
        total = sum(each.size for each in taken)
        outputs = max(1, math.ceil(total / SIZES.target))
        size = max(1, int(total * self.shrink / outputs))
        rows = sum(each.records for each in taken)
        made = [File(size, rows if n == 0 else 0, self.now, rewritten=True) for n in range(outputs)]
        kept = [each for each in self.files if each.size >= below]
        assert sum(f.records for f in kept + made) == sum(f.records for f in self.files)
        self.files = kept + made
        if due.mode == "final":
            self.finished = self.now
        return True


FILES = st.lists(
    st.tuples(st.integers(1, 300 * MB), st.integers(0, 3 * 24 * 60), st.booleans()),
    min_size=0,
    max_size=120,
)


@settings(max_examples=100, deadline=None)
@given(FILES, st.floats(0.05, 1.0))
def test_maintenance_of_a_quiet_partition_ends(files, shrink):
    simulated = Simulated([File(size, 1, NOW - timedelta(minutes=m), done) for size, m, done in files], shrink)
    done = 0
    for _ in range(3 * 24 * 2):  # three days, looked at every half hour
        done += simulated.step()
        simulated.now += timedelta(minutes=30)
    assert done <= 3
    assert not simulated.step()
    assert part(simulated.files).small <= max(
        POLICY.cold_min_files, math.ceil(sum(f.size for f in simulated.files) / SIZES.target)
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 4 * MB), st.floats(0.3, 1.0))
def test_a_busy_partition_stays_flat_and_is_not_rewritten_over_and_over(per_minute, size, shrink):
    simulated, written, rewritten = Simulated([], shrink), 0, 0
    for minute in range(6 * 60):
        simulated.now = NOW + timedelta(minutes=minute)
        simulated.files = simulated.files + [File(size, 1, simulated.now)] * per_minute
        written += size * per_minute
        if minute % 5 == 0:
            before = {id(each) for each in simulated.files}
            taken = sum(each.size for each in simulated.files if each.size < SIZES.fragment)
            if simulated.step() and before:
                rewritten += taken
    facts = part(simulated.files)
    assert facts.fragments <= POLICY.waive_cooldown_at * POLICY.min_fragments + 5 * per_minute
    if size * 30 * per_minute >= SIZES.fragment:  # what one pass gathers is no fragment any more
        assert rewritten <= 2 * written


@pytest.mark.parametrize("minutes", [0, 29])
def test_the_wait_after_a_rewrite_is_reported_with_its_end(minutes):
    recent = output(20 * MB, timedelta(minutes=minutes))
    due = judge(part([*raw(60), recent]), POLICY, SIZES, None, NOW)
    assert due.next_at == NOW + timedelta(minutes=30 - minutes)
    assert "but it was rewritten" in due.why


def ordered(order: str) -> Compact:
    return Compact(sort_order=SortOrder(order))


def cold(count: int = 3, size: int = 100 * MB) -> PartitionFacts:
    return part(raw(count, size, timedelta(hours=2)))


def of(facts, *parts: PartitionFacts, columns: tuple[str, ...] = ("carrier", "ts"), **changes):
    return replace(facts(partitions=parts, thresholds=SIZES), columns=columns, **changes)


def test_a_partition_that_went_cold_is_put_in_order_as_a_whole_and_once(facts):
    policy = ordered("carrier, ts desc")
    found = plan_compact(of(facts, cold()), policy, History(), NOW)
    assert isinstance(found, Action)
    (only,) = found.rewrites
    assert (only.mode, only.takes, only.takes_bytes, only.order) == ("layout", 3, 300 * MB, policy.sort_order)
    assert only.order.iceberg == "carrier ASC NULLS FIRST, ts DESC NULLS LAST"
    assert only.gives == 7, "twice the full files, and one: rows in another order take another room"
    done = History(finished={"p=1": NOW - timedelta(hours=1)})
    assert isinstance(plan_compact(of(facts, cold()), policy, done, NOW), NotPlanned)
    hot = plan_compact(of(facts, part(raw(60))), policy, History(), NOW)
    assert isinstance(hot, Action)
    assert [(each.mode, each.order) for each in hot.rewrites] == [("fragments", None)]


def test_what_came_late_into_an_ordered_partition_is_ordered_by_itself(facts):
    finished = History(finished={"p=1": NOW - timedelta(hours=3)})
    for format_, order in (("iceberg", "zorder(carrier, ts)"), ("delta", None)):
        policy = ordered("zorder(carrier,ts)")
        table = of(facts, part([*raw(5, age=timedelta(hours=2)), *raw(9, 120 * MB, timedelta(days=1))]), format=format_)
        found = plan_compact(table, policy, finished, NOW)
        assert isinstance(found, Action)
        (only,) = found.rewrites
        assert (only.mode, only.takes) == ("final", 5)
        assert (only.order and only.order.iceberg) == order, "Delta would take every file again"


@pytest.mark.parametrize(
    ("order", "format_", "why"),
    [
        ("carrier, gate", "iceberg", "the table has no column gate; its columns: carrier, ts"),
        ("carrier, ts DESC", "delta", "Delta orders rows by zorder(...) alone; write zorder(carrier, ts)"),
    ],
)
def test_an_order_a_table_cannot_have_is_reported_and_files_are_compacted_all_the_same(facts, order, format_, why):
    found = plan_compact(
        of(facts, part(raw(9, age=timedelta(hours=2))), format=format_), ordered(order), History(), NOW
    )
    assert isinstance(found, Action)
    assert [(each.mode, each.order) for each in found.rewrites] == [("final", None)]
    assert f"not in the order {order}: {why}" in found.why
    quiet = plan_compact(of(facts, cold(), format=format_), ordered(order), History(), NOW)
    assert isinstance(quiet, NotPlanned)
    assert why in quiet.why


@pytest.mark.parametrize("columns", [("k", "Id", "id"), ("s", "s.Id", "s.id"), ("Ä", "ä")])
def test_a_table_whose_columns_spark_takes_for_one_is_not_rewritten(facts, columns: tuple[str, ...]) -> None:
    """Iceberg's rewrite fails each time, and Spark reads no row of it."""
    full = facts(partitions=(part(raw(50)),))
    assert isinstance(plan_compact(full, POLICY, History(), NOW), Action)
    found = plan_compact(replace(full, columns=columns), POLICY, History(), NOW)
    assert isinstance(found, NotPlanned)
    assert f"columns {columns[-2]} and {columns[-1]} differ in case only" in found.why
