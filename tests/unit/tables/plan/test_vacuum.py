"""Which files a VACUUM takes, and what makes it wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Expire, Policy
from lakeward.spec.model.types import Duration
from lakeward.tables.plan import plan
from lakeward.tables.plan.model import Action, Clamp, History, Needs, NotPlanned
from lakeward.tables.plan.vacuum import LEAST_KEPT, plan_vacuum

WEEKLY = Expire(older_than=Duration("7d"), every=Duration("7d"))
SAFE = Needs(least_kept=LEAST_KEPT)


@pytest.fixture
def table(facts, chain, now):
    """Files taken out one to ten days ago."""
    gone = {f"f{days}": now - timedelta(days=days) for days in range(1, 11)}
    return replace(facts(chain(3)), format="delta", tombstones=gone)


def test_files_taken_out_before_what_is_kept_go(table, now) -> None:
    action = plan_vacuum(table, WEEKLY, SAFE, History(), now)
    assert isinstance(action, Action)
    assert (action.files, action.older_than) == (3, now - timedelta(days=7))


def test_delta_s_floor_holds_whatever_the_policy_says_unless_unsafe(table, now) -> None:
    hourly = Expire(older_than=Duration("6h"))
    action = plan_vacuum(table, hourly, SAFE, History(), now)
    assert isinstance(action, Action) and action.older_than == now - LEAST_KEPT
    action = plan_vacuum(table, hourly, Needs(), History(), now)
    assert isinstance(action, Action) and action.files == 10


def test_a_reader_that_is_behind_makes_it_wait_and_is_named(table, now) -> None:
    behind = replace(SAFE, clamps=(Clamp("stream copy", "it has read up to snapshot 2", now - timedelta(days=8)),))
    found = plan_vacuum(table, WEEKLY, behind, History(), now)
    assert isinstance(found, NotPlanned) and "is kept for stream copy" in found.why
    near = replace(SAFE, clamps=(Clamp("stream copy", "reads", now - timedelta(days=6)),))
    assert isinstance(plan_vacuum(table, WEEKLY, near, History(), now), Action)


def test_what_the_last_one_took_does_not_make_it_due_again(table, now) -> None:
    done = History(done={"expire": now - timedelta(hours=1)})
    found = plan_vacuum(table, WEEKLY, SAFE, done, now)
    assert isinstance(found, NotPlanned)
    assert found.next_at == now + timedelta(days=1) - timedelta(days=1)


def test_a_refusal_and_a_table_without_tombstones_are_told(table, now) -> None:
    refused = plan_vacuum(table, WEEKLY, replace(SAFE, refusals=("rolled back",)), History(), now)
    assert isinstance(refused, NotPlanned) and refused.refused
    assert isinstance(plan_vacuum(replace(table, tombstones={}), WEEKLY, SAFE, History(), now), NotPlanned)


def test_the_planner_asks_for_no_manifests_of_a_delta_table(table, now) -> None:
    made = plan(table, Policy(expire=WEEKLY), SAFE, History(), now)
    assert [each.action for each in made.actions] == ["expire"]
    assert [each.why for each in made.not_planned if each.action == "manifests"] == ["a Delta table has none"]
