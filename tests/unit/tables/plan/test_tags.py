"""When a table gets a tag for a day that is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Tags
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import Ref
from lakeward.tables.plan.expire import expirable
from lakeward.tables.plan.model import Action, NotPlanned
from lakeward.tables.plan.tags import plan_tags
from lakeward.tables.verify import verify_tags

DAY = timedelta(days=1)


@pytest.fixture
def table(facts, chain):
    """Twenty commits, one every two hours: the newest of yesterday is 14 of 20, at 22:00."""
    return facts(chain(20, every=timedelta(hours=2)))


def test_the_newest_snapshot_of_yesterday_is_tagged(table, now) -> None:
    found = plan_tags(table, Tags(), now)
    assert isinstance(found, Action)
    assert found.tag is not None
    assert (found.tag.name, found.tag.max_age) == ("lakeward-2026-02-28", 7 * DAY)
    day = {each.id: each.at for each in table.snapshots}
    assert day[found.tag.snapshot_id].day == 28
    assert day[found.tag.snapshot_id + 1].day == 1


@pytest.mark.parametrize(
    ("refs", "why"),
    [
        ({"lakeward-2026-02-28": 3}, "tag lakeward-2026-02-28 exists"),
        ({"lakeward-2026-02-27": 14}, "nothing was committed since tag lakeward-2026-02-27"),
    ],
)
def test_what_is_tagged_is_not_tagged_again(table, now, refs, why) -> None:
    standing = plan_tags(table, Tags(), now)
    assert isinstance(standing, Action) and standing.tag is not None and standing.tag.snapshot_id == 14
    tagged = replace(table, refs={**table.refs, **{name: Ref("tag", at) for name, at in refs.items()}})
    found = plan_tags(tagged, Tags(), now)
    assert isinstance(found, NotPlanned)
    assert found.why == why
    assert found.next_at == now.replace(hour=0) + DAY


def test_a_table_of_today_and_one_that_slept_get_none(facts, chain, table, now) -> None:
    assert plan_tags(facts(chain(5)), Tags(), now) == NotPlanned(
        "tags", "its history begins today", now.replace(hour=0) + DAY
    )
    late = plan_tags(table, Tags(), now + 9 * DAY)
    assert isinstance(late, NotPlanned) and late.why == "nothing was committed for 9 days"
    shared = plan_tags(replace(table, properties={"gc.enabled": "false"}), Tags(), now)
    assert isinstance(shared, NotPlanned) and "may belong to another table" in shared.why
    off = plan_tags(table, Tags(enabled=False), now)
    assert isinstance(off, NotPlanned)
    assert plan_tags(replace(table, format="delta"), Tags(), now) == NotPlanned("tags", "a Delta table has none")


def test_a_part_of_a_minute_is_rounded_up_as_sql_says_minutes(table, now) -> None:
    found = plan_tags(table, Tags(keep=Duration("90030s")), now)
    assert isinstance(found, Action) and found.tag is not None
    assert found.tag.max_age == timedelta(minutes=1501)


def test_an_expiry_takes_a_tag_whose_age_is_over_and_what_it_alone_kept(table, now) -> None:
    tagged = replace(table, refs={**table.refs, "lakeward-x": Ref("tag", 2, expires_after_ms=24 * 3600 * 1000)})
    at = {each.id: each.at for each in table.snapshots}[2]
    assert 2 not in expirable(tagged, now, 1, at + DAY)
    assert 2 in expirable(tagged, now, 1, at + DAY + timedelta(milliseconds=1))


def test_a_tag_elsewhere_or_for_ever_is_not_what_was_planned(table, now) -> None:
    planned = plan_tags(table, Tags(), now)
    assert isinstance(planned, Action) and planned.tag is not None
    name, week = planned.tag.name, 7 * 24 * 3600 * 1000

    def with_tag(**given):
        return replace(table, refs={**table.refs, name: Ref(**{"kind": "tag", "snapshot_id": 14, **given})})

    assert verify_tags(planned, with_tag(expires_after_ms=week)).ok
    assert not verify_tags(planned, with_tag()).ok
    assert not verify_tags(planned, with_tag(expires_after_ms=week, snapshot_id=13)).ok
    assert not verify_tags(planned, table).ok
