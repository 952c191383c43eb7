from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.connectors.delta.properties import KEPT
from lakeward.spec.model.policy import Expire, Metadata, Policy
from lakeward.spec.model.types import Duration
from lakeward.tables.plan import plan
from lakeward.tables.plan.delta import CLEANED, FILE_RETENTION, LOG_RETENTION, MIN_FILE_AGE, plan_log, plan_vacuum
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned, SnapshotPin

WEEKLY = Expire(older_than=Duration("7d"), every=Duration("7d"))
SAFE = Needs(min_file_age=MIN_FILE_AGE)


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
    assert isinstance(action, Action) and action.older_than == now - MIN_FILE_AGE
    action = plan_vacuum(table, hourly, Needs(), History(), now)
    assert isinstance(action, Action) and action.files == 10


@pytest.mark.parametrize(
    ("kept", "going"),
    [
        ("interval 9 days", 1),
        ("1 week 36 hours", 2),
        ("interval 2 days", 3),
        ("INTERVAL 6 WEEKS", 0),
        ("99999999 weeks", 0),
    ],
)
def test_deleted_files_stay_as_long_as_the_table_s_owner_says(table, now, kept: str, going: int) -> None:
    found = plan_vacuum(replace(table, properties={FILE_RETENTION: kept}), WEEKLY, SAFE, History(), now)
    assert (found.files if isinstance(found, Action) else 0) == going


@pytest.mark.parametrize("kept", ["a while", "interval 3 months", "7 days 7 days and more", ""])
def test_no_file_is_deleted_while_its_retention_cannot_be_read(table, now, kept: str) -> None:
    found = plan_vacuum(replace(table, properties={FILE_RETENTION: kept}), WEEKLY, SAFE, History(), now)
    assert isinstance(found, NotPlanned) and found.refused
    assert f"{FILE_RETENTION} = {kept} is not an interval" in found.why


def test_a_reader_that_is_behind_makes_it_wait_and_is_named(table, now) -> None:
    behind = replace(
        SAFE, clamps=(SnapshotPin("stream copy", "it has read up to snapshot 2", now - timedelta(days=8)),)
    )
    found = plan_vacuum(table, WEEKLY, behind, History(), now)
    assert isinstance(found, NotPlanned) and "is kept for stream copy" in found.why
    near = replace(SAFE, clamps=(SnapshotPin("stream copy", "reads", now - timedelta(days=6)),))
    assert isinstance(plan_vacuum(table, WEEKLY, near, History(), now), Action)


def test_what_the_last_one_took_does_not_make_it_due_again(table, now) -> None:
    done = History(done={"expire": now - timedelta(hours=1)})
    found = plan_vacuum(table, WEEKLY, SAFE, done, now)
    assert isinstance(found, NotPlanned)
    assert found.next_at == now + timedelta(days=1) - timedelta(days=1)


def test_a_refusal_and_a_table_without_tombstones_are_reported(table, now) -> None:
    refused = plan_vacuum(table, WEEKLY, replace(SAFE, refusals=("rolled back",)), History(), now)
    assert isinstance(refused, NotPlanned) and refused.refused
    assert isinstance(plan_vacuum(replace(table, tombstones={}), WEEKLY, SAFE, History(), now), NotPlanned)


def test_the_planner_asks_for_no_manifests_of_a_delta_table(table, now) -> None:
    made = plan(table, Policy(expire=WEEKLY), SAFE, History(), now)
    assert [each.action for each in made.actions] == ["expire"]
    assert [each.why for each in made.not_planned if each.action == "manifests"] == ["a Delta table has none"]


POLICY = Policy(expire=Expire(older_than=Duration("7d")), metadata=Metadata(log_files=1000))


def needs(now, days: float | None = None) -> Needs:
    clamps = (SnapshotPin("stream totals", "it has read up to snapshot 3", now - timedelta(days=days)),) if days else ()
    return Needs(clamps=clamps, min_file_age=MIN_FILE_AGE)


@pytest.fixture
def logged(facts, chain):
    def make(files: int, **properties: str):
        return replace(facts(chain(3), **properties), format="delta", metadata_files=files)

    return make


def test_a_long_log_nobody_spoke_of_is_cut_to_what_files_are_kept(logged, now) -> None:
    found = plan(logged(1001), POLICY, needs(now), History(), now, ["metadata"]).action("metadata")
    assert found is not None
    assert found.properties == {LOG_RETENTION: "interval 7 days"}
    assert found.why == "1,001 files in its log (limit 1000): it reaches 30 days back, files do 7 days"
    short = POLICY.model_copy(update={"expire": Expire(older_than=Duration("1h"))})
    floor = plan_log(logged(1001), short, needs(now), now)
    assert isinstance(floor, Action) and floor.properties == {LOG_RETENTION: "interval 7 days"}


@pytest.mark.parametrize(("days", "wanted"), [(28.5, "interval 36 days"), (40, "interval 47 days")])
def test_a_reader_that_falls_behind_gets_a_longer_log_before_it_is_cut(logged, now, days, wanted) -> None:
    found = plan_log(logged(5), POLICY, needs(now, days), now)
    assert isinstance(found, Action)
    assert found.properties == {LOG_RETENTION: wanted}
    assert "stream totals needs what is" in found.why
    weekly = plan_log(logged(5, **{LOG_RETENTION: "interval 1 week"}), POLICY, needs(now, 6), now)
    assert isinstance(weekly, Action) and weekly.properties == {LOG_RETENTION: "interval 13 days"}
    assert isinstance(plan_log(logged(5), POLICY, needs(now, 27.9), now), NotPlanned)


@pytest.mark.parametrize(
    ("files", "properties", "days", "why"),
    [
        (1000, {}, None, "1,000 files in its log (limit 1000)"),
        (9000, {LOG_RETENTION: "interval 20 days"}, None, "9,000 files in its log, which reaches 20 days back"),
        (9000, {LOG_RETENTION: "INTERVAL '1-2' YEAR TO MONTH"}, None, "is not an interval"),
        (9000, {CLEANED: "false"}, 90, "no clean-up"),
        (9000, {}, 6, "but stream totals needs what is 6 days old"),
    ],
)
def test_what_is_not_due_says_why(logged, now, files, properties, days, why) -> None:
    found = plan_log(logged(files, **properties), POLICY, needs(now, days), now)
    assert isinstance(found, NotPlanned)
    assert why in found.why


def test_a_property_that_delta_cannot_read_is_set_right_alone_and_first(table, now) -> None:
    odd = replace(table, properties={FILE_RETENTION: "one week"})
    made = plan(odd, Policy(expire=WEEKLY), SAFE, History(failures={"metadata": (9, now)}), now)
    assert [(each.action, each.properties) for each in made.actions] == [("metadata", {FILE_RETENTION: KEPT})]
    refused = {each.action: each.why for each in made.not_planned if each.refused}
    assert set(refused) == {"compact", "expire"} and "'one week'; valid is an interval" in refused["expire"]
    off = plan_log(odd, Policy(metadata=Metadata(enabled=False)), SAFE, now)
    assert isinstance(off, NotPlanned) and "'one week'" in off.why and off.why.endswith("switched off by policy")


def test_a_property_that_only_a_write_reads_stops_no_vacuum(table, now) -> None:
    odd = replace(table, properties={"delta.randomizeFilePrefixes": "ja"})
    made = plan(odd, Policy(expire=WEEKLY), SAFE, History(), now)
    assert {each.action for each in made.actions} == {"metadata", "expire"}
