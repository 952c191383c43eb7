"""When a table is told to let its old metadata files go, and when it is left as somebody set it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.spec.model.policy import Metadata, Policy
from lakeward.tables.plan import History, Needs, plan
from lakeward.tables.plan.metadata import DELETE, RETRIES, VERSIONS_MAX, plan_metadata
from lakeward.tables.plan.model import Action, NotPlanned
from lakeward.tables.verify import verify_metadata


@pytest.fixture
def piled(facts):
    """A table whose commits left so many metadata files; properties by their names."""

    def make(files: int, **properties: str):
        return replace(facts(**properties), metadata_files=files)

    return make


def test_many_files_and_no_word_about_them_are_due(piled) -> None:
    planned = plan_metadata(piled(61), Metadata())
    assert isinstance(planned, Action)
    assert (planned.files, dict(planned.properties)) == (10, {DELETE: "true", VERSIONS_MAX: "50"})
    assert planned.why.startswith("61 metadata files in its log (limit 50 and the current one)")


def test_the_tables_own_number_stands(piled) -> None:
    assert isinstance(plan_metadata(piled(20, **{VERSIONS_MAX: "20"}), Metadata()), NotPlanned)
    planned = plan_metadata(
        piled(21, **{VERSIONS_MAX: "20"}), Metadata()
    )  # as many as Iceberg names; more stand on disk
    assert isinstance(planned, Action)
    assert (planned.files, dict(planned.properties)) == (0, {DELETE: "true"})
    assert verify_metadata(planned, piled(21), piled(21, **{VERSIONS_MAX: "20"}, **planned.properties)).ok
    one = plan_metadata(piled(2, **{VERSIONS_MAX: "0"}), Metadata())  # Iceberg keeps one
    assert isinstance(one, Action)
    assert one.files == 0


def test_a_limit_above_icebergs_own_is_reached_all_the_same(piled) -> None:
    assert isinstance(plan_metadata(piled(101), Metadata(previous_versions=500)), Action)


def test_what_no_commit_can_read_is_set_right_first_and_nothing_else_runs(piled, now) -> None:
    odd = piled(90, **{VERSIONS_MAX: "many", "commit.retry.min-wait-ms": "1s"})
    off = plan_metadata(odd, Metadata(enabled=False))
    assert isinstance(off, NotPlanned) and off.why.endswith("not mended: switched off by policy"), "a decision"
    planned = plan_metadata(odd, Metadata())
    assert isinstance(planned, Action)
    assert dict(planned.properties) == {VERSIONS_MAX: "100", "commit.retry.min-wait-ms": "100"}
    assert planned.why.startswith("commit.retry.min-wait-ms is '1s', which is no whole number; write.metadata")
    whole = plan(odd, Policy(), Needs(), History(failures={"metadata": (9, now)}), now)
    assert [each.action for each in whole.actions] == ["metadata"], "also after failures"
    assert all(each.refused and "action metadata sets it" in each.why for each in whole.not_planned)


@pytest.mark.parametrize(
    ("files", "properties", "why"),
    [
        (50, {}, "50 metadata files (limit 50 and the current one)"),
        (90, {DELETE: "TRUE"}, "90 metadata files, the oldest is deleted with each commit"),
        (90, {DELETE: "true"}, "90 metadata files, the oldest is deleted with each commit"),
        (90, {DELETE: "false"}, "90 metadata files and growing, but write.metadata"),
        (90, {"gc.enabled": "false"}, "gc.enabled is false"),
        (90, {"gc.enabled": "no"}, "gc.enabled is false"),
        (90, {"gc.enabled": "False "}, "gc.enabled is false"),
    ],
)
def test_what_is_not_due_says_why(piled, files: int, properties: dict[str, str], why: str) -> None:
    found = plan_metadata(piled(files, **properties), Metadata())
    assert isinstance(found, NotPlanned)
    assert found.why.startswith(why)
    assert found.refused == ("gc.enabled" in properties)


def test_it_can_be_switched_off(piled) -> None:
    assert plan_metadata(piled(90), Metadata(enabled=False)) == NotPlanned("metadata", "switched off by policy")


def test_it_is_good_when_the_properties_stand_and_the_files_went(piled) -> None:
    before = piled(61)
    action = plan_metadata(before, Metadata())
    assert isinstance(action, Action)
    after = piled(51, **action.properties)
    assert verify_metadata(action, before, after).ok
    assert verify_metadata(action, before, piled(51, **{DELETE: "true"})).why == f"not set: {VERSIONS_MAX}"
    still = verify_metadata(action, before, piled(52, **action.properties))
    assert (still.ok, still.why) == (False, "52 metadata files are named still, 51 were promised")


def test_what_another_writer_did_to_main_is_told_and_history_that_is_lost_is_held(facts, chain) -> None:
    before = replace(facts(chain(2)), metadata_files=61)
    action = plan_metadata(before, Metadata())
    assert isinstance(action, Action)
    new = replace(chain(3)[2], parent=None)  # CREATE OR REPLACE TABLE .. AS SELECT
    for snapshots, head, did in (
        (chain(2), 1, "moved main back to snapshot 1"),
        ((*chain(2), new), 3, "replaced the content of the table"),
    ):
        verdict = verify_metadata(action, before, facts(snapshots, head=head, **action.properties))
        assert (verdict.ok, verdict.harmed, verdict.why) == (False, False, f"another writer {did} meanwhile")
    assert verify_metadata(action, before, facts((replace(new, sequence=1),), **action.properties)).harmed


def test_a_stream_s_commits_are_tried_again_where_nobody_said_how_often(facts) -> None:
    at = Position(seq=1, query_id="q", batch=0, end={"source": "{}"}, snapshot=1, snapshot_seq=1)
    landed = facts(positions={"flights": at})
    planned = plan_metadata(landed, Metadata())
    assert isinstance(planned, Action)
    assert dict(planned.properties) == RETRIES
    assert verify_metadata(planned, landed, facts(positions={"flights": at}, **RETRIES)).ok
    assert isinstance(plan_metadata(facts(), Metadata()), NotPlanned), "nobody streams into it"
    own = facts(positions={"flights": at}, **{"commit.retry.num-retries": "0"})
    assert isinstance(plan_metadata(own, Metadata()), NotPlanned)
    both = plan_metadata(replace(landed, metadata_files=61), Metadata())
    assert isinstance(both, Action)
    assert set(both.properties) == {DELETE, VERSIONS_MAX, *RETRIES}
