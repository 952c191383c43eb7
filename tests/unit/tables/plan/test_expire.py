"""Which snapshots an expiry takes, and what keeps it from taking more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Expire
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import Ref, Snapshot
from lakeward.tables.plan.expire import AGE, LEAST, cutoff, expirable, plan_expire
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned, SnapshotPin

POLICY = Expire(older_than=Duration("10m"), min_snapshots=3, every=Duration("6h"))


def test_old_snapshots_beyond_the_least_number_go(facts, chain, now):
    table = facts(chain(20))
    assert expirable(table, now - timedelta(minutes=10), 3, now) == set(range(1, 11))
    assert expirable(table, now, 3, now) == set(range(1, 18))


def test_a_snapshot_at_the_edge_stays(facts, chain, now):
    edge = chain(20)[9].at
    assert 10 not in expirable(facts(chain(20)), edge, 1, now)
    assert 10 in expirable(facts(chain(20)), edge + timedelta(milliseconds=1), 1, now)


def test_what_a_tag_or_a_branch_names_stays(facts, chain, now):
    table = facts(chain(20), refs={"daily": Ref("tag", 4), "verified": Ref("branch", 8, min_snapshots=2)})
    assert {4, 8, 7}.isdisjoint(expirable(table, now, 3, now))
    assert {3, 5, 6} <= expirable(table, now, 3, now)


def test_a_staged_snapshot_goes_only_by_age(facts, chain, now):
    staged = Snapshot(99, 20, 21, now - timedelta(minutes=2), "append", {"wap.id": "s/2/n"})
    table = facts((*chain(20), staged), head=20)
    assert 99 not in expirable(table, now - timedelta(minutes=3), 1, now)
    assert 99 in expirable(table, now, 1, now)


def test_the_tightest_clamp_moves_the_edge(now):
    old, older = now - timedelta(minutes=30), now - timedelta(hours=2)
    clamps = (SnapshotPin("a", "x", old), SnapshotPin("b", "y", older))
    assert cutoff(POLICY, clamps, now) == (older, clamps[1])
    assert cutoff(POLICY, (SnapshotPin("a", "x", now),), now) == (now - timedelta(minutes=10), None)


def test_the_plan_says_how_many_and_who_pins_the_rest(facts, chain, now):
    pinned = Needs(clamps=(SnapshotPin("stream flights", "its newest publication", chain(20)[4].at),))
    action = plan_expire(facts(chain(20)), POLICY, pinned, History(), now)
    assert isinstance(action, Action)
    assert (action.files, action.older_than, action.retain_last) == (4, chain(20)[4].at, 3)
    assert "is kept for stream flights" in action.why


def test_a_clamp_over_everything_leaves_nothing_to_do(facts, chain, now):
    needs = Needs(clamps=(SnapshotPin("quality", "no check has passed yet", chain(20)[0].at),))
    found = plan_expire(facts(chain(20)), POLICY, needs, History(), now)
    assert isinstance(found, NotPlanned)
    assert "is kept for quality" in found.why


def test_a_refusal_is_said_even_when_expiry_is_due(facts, chain, now):
    found = plan_expire(facts(chain(20)), POLICY, Needs(refusals=("main was rolled back",)), History(), now)
    assert isinstance(found, NotPlanned)
    assert (found.why, found.refused) == ("main was rolled back", True)


def test_expiry_waits_its_interval_unless_a_compaction_came_after_it(facts, chain, now):
    hour = timedelta(hours=1)
    waiting = plan_expire(facts(chain(20)), POLICY, Needs(), History(done={"expire": now - hour}), now)
    assert isinstance(waiting, NotPlanned)
    assert waiting.next_at == now + 5 * hour
    both = History(done={"expire": now - hour, "compact": now - hour / 2})
    assert isinstance(plan_expire(facts(chain(20)), POLICY, Needs(), both, now), Action)


def test_few_snapshots_are_kept_whatever_their_age(facts, chain, now):
    found = plan_expire(facts(chain(3)), POLICY, Needs(), History(), now + timedelta(days=9))
    assert isinstance(found, NotPlanned)
    assert found.why == "3 snapshots, 3 are kept"


def test_young_history_says_when_its_oldest_is_due(facts, chain, now):
    found = plan_expire(facts(chain(8)), POLICY, Needs(), History(), now)
    assert isinstance(found, NotPlanned)
    assert found.next_at == now + timedelta(minutes=2)


def test_a_branch_with_an_age_of_its_own_keeps_or_gives_its_snapshots_by_it(facts, chain, now):
    hour = 3_600_000
    longer = facts(chain(20), refs={"audit": Ref("branch", 6, max_age_ms=hour)})
    assert expirable(longer, now, 1, now).isdisjoint(range(1, 7))
    shorter = facts(chain(20), refs={"main": Ref("branch", 20, max_age_ms=120_000)})
    found = plan_expire(shorter, POLICY, Needs(), History(), now)
    assert isinstance(found, NotPlanned) and found.refused
    assert found.why == "branch main keeps its snapshots for 2 min (max-snapshot-age-ms), regardless of the policy"


def test_verified_is_not_let_go_by_its_age(facts, chain, now):
    held = facts(chain(20), refs={"verified": Ref("branch", 8, expires_after_ms=60_000)})
    found = plan_expire(held, POLICY, Needs(), History(), now)
    assert isinstance(found, NotPlanned) and found.refused
    assert "branch verified would be dropped" in found.why


@pytest.mark.parametrize(
    ("properties", "going"),
    [
        ({LEAST: "15"}, 5),
        ({LEAST: "1"}, 10),
        ({LEAST: "0"}, 10),
        ({LEAST: "-3"}, 10),
        ({AGE: "900000"}, 5),
        ({AGE: "60000"}, 10),
        ({AGE: "-1"}, 10),
        ({AGE: str(2**63 - 1)}, 0),
        ({LEAST: str(2**63 - 1)}, 0),
        ({AGE: "900000", LEAST: "18"}, 2),
    ],
)
def test_the_table_s_own_properties_keep_more_than_the_policy_and_never_less(facts, chain, now, properties, going):
    found = plan_expire(facts(chain(20), **properties), POLICY, Needs(), History(), now)
    assert (found.files if isinstance(found, Action) else 0) == going
    assert ("its own properties keep more" in found.why) == (going < 10)
    if isinstance(found, Action):
        assert len(expirable(facts(chain(20)), found.cutoff, found.retain_last, now)) == going


@pytest.mark.parametrize("key", [AGE, LEAST])
@pytest.mark.parametrize("value", ["many", "", "7d", "1.5", "9" * 18 + "x"])
def test_nothing_expires_while_such_a_property_cannot_be_read(facts, chain, now, key, value):
    found = plan_expire(facts(chain(20), **{key: value}), POLICY, Needs(), History(), now)
    assert isinstance(found, NotPlanned) and found.refused
    assert found.why.startswith(f"its property {key} is {value!r}, which is no whole number")
