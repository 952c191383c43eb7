"""The order of actions, and what stops all of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Policy
from lakeward.tables.plan import ORDER, History, Needs, Pace, plan


@pytest.fixture
def busy(facts, chain):
    """A table whose manifests and snapshots are due."""
    return facts(chain(300, every=timedelta(hours=1)), manifests=300)


def test_actions_come_in_the_order_they_are_done(busy, now):
    made = plan(busy, Policy(), Needs(), History(), now)
    assert [each.action for each in made.actions] == ["manifests", "tags", "expire"]
    assert [each.action for each in made.not_planned] == ["compact", "deletes", "metadata"]
    assert set(made.document()) == {"table", "actions", "not_planned"}
    assert set(made.document()["actions"][0]) == {"action", "partitions", "files", "size_bytes", "expected_s", "why"}
    assert set(made.document()["not_planned"][0]) == {"action", "why", "next_at"}


def test_naming_an_action_does_not_make_it_due(busy, now):
    assert plan(busy, Policy(), Needs(), History(), now, ["compact"]).actions == ()


def test_a_hold_stops_everything_until_its_time(busy, now):
    until = now + timedelta(hours=1)
    held = plan(busy, Policy(), Needs(hold_until=until), History(), now)
    assert held.actions == ()
    assert {each.next_at for each in held.not_planned} == {until}
    assert plan(busy, Policy(), Needs(hold_until=now), History(), now).actions


def test_a_table_with_something_foreign_under_it_is_never_touched(busy, now):
    made = plan(busy, Policy(), Needs(forbidden="refused: a checkpoint lies under its location"), History(), now)
    assert made.actions == ()
    assert all(each.refused for each in made.not_planned)


def test_three_failures_in_a_row_wait_six_hours(busy, now):
    failed = History(failures={"manifests": (3, now - timedelta(hours=1))})
    made = plan(busy, Policy(), Needs(), failed, now)
    assert [each.action for each in made.actions] == ["tags", "expire"]
    waiting = next(each for each in made.not_planned if each.action == "manifests")
    assert waiting.next_at == now + timedelta(hours=5)
    assert len(plan(busy, Policy(), Needs(), failed, now + timedelta(hours=5, seconds=1)).actions) == 3
    twice = History(failures={"manifests": (2, now)})
    assert len(plan(busy, Policy(), Needs(), twice, now).actions) == 3


@pytest.mark.parametrize(
    ("count", "files", "due"), [(201, 9999, True), (200, 2000, False), (12, 50, True), (9, 9, False)]
)
def test_manifests_are_rewritten_when_planning_feels_them(facts, chain, now, count, files, due):
    from dataclasses import replace

    table = facts(chain(2), manifests=count)
    table = replace(table, profile=replace(table.profile, files=files))
    made = plan(table, Policy(), Needs(), History(), now, ["manifests"])
    assert bool(made.actions) is due
    recently = History(done={"manifests": now - timedelta(hours=1)})
    assert plan(table, Policy(), Needs(), recently, now, ["manifests"]).actions == ()


def test_the_order_is_compact_then_manifests_then_expire_then_metadata():
    assert ORDER == ("compact", "deletes", "manifests", "tags", "expire", "metadata")


@pytest.mark.parametrize(("count", "due"), [(4, True), (5, False)])
def test_five_runs_that_changed_nothing_halve_the_frequency(busy, now, count, due):
    seen = now - timedelta(hours=7)  # manifests may be rewritten every 6 hours
    idle = History(idle={"manifests": (count, seen)})
    made = plan(busy, Policy(), Needs(), idle, now, ["manifests"])
    assert bool(made.actions) is due
    if not due:
        assert made.not_planned[0].next_at == seen + timedelta(hours=12)
        assert plan(busy, Policy(), Needs(), idle, now + timedelta(hours=5, seconds=1), ["manifests"]).actions
        both = History(idle=idle.idle, failures={"manifests": (5, seen)})
        assert plan(busy, Policy(), Needs(), both, now, ["manifests"]).not_planned[0].next_at == seen + timedelta(
            hours=12
        )


def test_an_action_says_how_long_it_should_take_on_this_table(busy, now):
    first = plan(busy, Policy(), Needs(), History(), now).action("manifests")
    slow = plan(busy, Policy(), Needs(), History(paces={"manifests": Pace(1.0, 10.0, 3)}), now).action("manifests")
    assert (first.expected_s, slow.expected_s) == (4.0, 31.0)
    assert slow.document()["expected_s"] == 31.0
