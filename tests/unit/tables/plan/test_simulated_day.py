"""A simulated day of several writers: maintenance converges, ends, rewrites little, and never does what is forbidden.

Each property is held against planners with one guard taken out, too: it has to find them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from table_model import DAY, SHAPES, Shape, TableModel, hourly

from lakeward.spec.model.policy import Policy
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan import Needs, Plan, SnapshotPin, plan

GB = 1 << 30
BY_NAME = {each.name: each for each in SHAPES}
LATE = BY_NAME["every 10 s, some of it late"]
STUBBORN = Shape("every minute, a partition an hour", timedelta(minutes=1), lambda at, _: [(hourly(at), 6 << 20)])
FOUR = BY_NAME["every 10 s, four files"]


def compact_with(**changed: Any) -> Policy:
    """The default policy with other thresholds, as if the guard they stand for were not there."""
    policy = Policy()
    return policy.model_copy(update={"compact": policy.compact.model_copy(update=changed)})


def forgets_final_passes(facts: TableFacts, policy: Policy, needs: Needs, history: Any, now: datetime) -> Plan:
    return plan(facts, policy, needs, replace(history, finished={}, tried={}), now)


def forgets_short_passes(facts: TableFacts, policy: Policy, needs: Needs, history: Any, now: datetime) -> Plan:
    return plan(facts, policy, needs, replace(history, tried={}), now)


def a_day(shape: Shape, **known: Any) -> TableModel:
    """A table written for a day and then left alone for one: every partition got its final layout."""
    model = TableModel(shape, **known)
    model.run(DAY)
    model.run(DAY, writing=False)
    return model


def converges(model: TableModel) -> bool:
    """Nothing is left that the final pass should have taken: four small files a partition at most."""
    return all(part.small <= Policy().compact.cold_min_files for part in model.facts().profile.partitions)


def ends(model: TableModel) -> bool:
    """Nothing is rewritten any more in a further day that nobody writes in."""
    return model.run(DAY, writing=False) == 0


@pytest.mark.parametrize(  # `table_model.SHAPES`, each once
    "shape",
    [
        BY_NAME["every second, one partition"],
        LATE,
        BY_NAME["every minute, upserts"],
        pytest.param(
            BY_NAME["every 10 s, a partition an hour"],
            marks=pytest.mark.campaign(held_by="test_a_day_of_commits_converges_ends_and_is_rewritten_at_most_twice"),
        ),
        pytest.param(
            BY_NAME["every 10 s, a partition a day"],
            marks=pytest.mark.campaign(held_by="test_a_day_of_commits_converges_ends_and_is_rewritten_at_most_twice"),
        ),
        FOUR,
        pytest.param(
            BY_NAME["every 10 min, a trickle"],
            marks=pytest.mark.campaign(held_by="test_a_day_of_commits_converges_ends_and_is_rewritten_at_most_twice"),
        ),
    ],
    ids=lambda each: each.name,
)
def test_a_day_of_commits_converges_ends_and_is_rewritten_at_most_twice(shape):
    model = a_day(shape)
    assert converges(model)
    assert ends(model)
    print(f"{shape.name}: written again {model.amplification(GB):.2f} times over 1 GB, {model.amplification():.2f} all")
    assert model.amplification(GB) <= 2


@pytest.mark.campaign(held_by="test_a_day_of_commits_converges_ends_and_is_rewritten_at_most_twice")
def test_without_the_final_pass_it_does_not_converge():
    assert not converges(a_day(LATE, policy=compact_with(cold_min_files=10**6)))


@pytest.mark.campaign(held_by="test_a_day_of_commits_converges_ends_and_is_rewritten_at_most_twice")
@pytest.mark.parametrize(
    "changed", [{"cooldown": Duration("1ms")}, {"fragment_ratio": 0.75}], ids=["no cooldown", "no fragments"]
)
def test_without_cooldown_or_fragments_it_rewrites_too_much(changed):
    assert a_day(FOUR, policy=compact_with(**changed)).amplification(GB) > 2


@pytest.mark.parametrize("pieces", [4, 100], ids=["done", "short of promise"])
def test_an_engine_that_never_reaches_the_target_is_not_asked_for_ever(pieces):
    assert ends(a_day(STUBBORN, pieces=pieces))


@pytest.mark.campaign(held_by="test_an_engine_that_never_reaches_the_target_is_not_asked_for_ever")
@pytest.mark.parametrize(
    ("pieces", "planted"), [(4, forgets_final_passes), (100, forgets_short_passes)], ids=["done", "short of promise"]
)
def test_a_planner_that_forgets_its_passes_asks_such_an_engine_for_ever(pieces, planted):
    assert not ends(a_day(STUBBORN, pieces=pieces, planner=planted))


# What is forbidden --------------------------------------------------------------------------------------------------

QUICK = Shape("every minute", timedelta(minutes=1), lambda at, _: [("", 1 << 20)])


def mischief(seed: int) -> Callable[[TableFacts, datetime], Needs]:
    """Needs that come and go: clamps on any snapshot, refusals, holds, a foreign table under the location."""
    chance = random.Random(seed)

    def needs(facts: TableFacts, now: datetime) -> Needs:
        at = [each.at for each in chance.sample(facts.snapshots, min(2, len(facts.snapshots)))]
        return Needs(
            clamps=tuple(SnapshotPin("a reader", "it is slow", each) for each in at if chance.random() < 0.7),
            refusals=("a position is off main",) if chance.random() < 0.1 else (),
            hold_until=now + timedelta(minutes=3) if chance.random() < 0.1 else None,
            forbidden="refused: a checkpoint lies under it" if chance.random() < 0.1 else "",
        )

    return needs


def forbidden(model: TableModel) -> list[str]:
    """What was planned though a need forbade it."""
    found = []
    for now, needs, made, facts in model.plans:
        if made.actions and (needs.forbidden or (needs.hold_until and needs.hold_until > now)):
            found.append("held")
        expiry = made.action("expire")
        if expiry is None or expiry.older_than is None:
            continue
        if needs.refusals:
            found.append("refused")
        if any(expiry.older_than > clamp.at for clamp in needs.clamps):
            found.append("clamped")
        if facts.snapshot_id is None or len(facts.main()) - expiry.files < expiry.retain_last:
            found.append("kept")
    return found


def watched(planner: Callable[..., Plan], seed: int = 1) -> TableModel:
    expire = Policy().expire
    quick = expire.model_copy(update={"older_than": Duration("1h"), "every": Duration("30m")})
    policy = Policy().model_copy(update={"expire": quick})
    model = TableModel(QUICK, planner, policy, mischief(seed), keep_plans=True, retained=None)
    model.run(timedelta(hours=12))
    return model


@pytest.mark.parametrize("seed", range(3))
def test_what_a_need_forbids_is_never_planned(seed):
    model = watched(plan, seed)
    assert forbidden(model) == []
    assert sum(made.action("expire") is not None for _, _, made, _ in model.plans) >= 3, "it must have been tempted"


def _without(**gone: Any) -> Callable[..., Plan]:
    def planted(facts: TableFacts, policy: Policy, needs: Needs, history: Any, now: datetime) -> Plan:
        return plan(facts, policy, replace(needs, **gone), history, now)

    return planted


@pytest.mark.campaign(held_by="test_what_a_need_forbids_is_never_planned")
@pytest.mark.parametrize(
    ("gone", "found"),
    [
        ({"clamps": ()}, "clamped"),
        ({"refusals": ()}, "refused"),
        ({"hold_until": None}, "held"),
        ({"forbidden": ""}, "held"),
    ],
    ids=["clamps", "refusals", "hold", "forbidden"],
)
def test_a_planner_without_a_guard_is_found(gone, found):
    assert found in forbidden(watched(_without(**gone)))
