"""What the ledger's rows say of a table's past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lakeward.tables.needs import history_from

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MB = 1 << 20


def row(age_h: float, result: str = "done", action: str = "compact", **values: Any) -> dict[str, Any]:
    """A row of the ledger; a compaction of partition `p=1` unless told otherwise."""
    at = NOW - timedelta(hours=age_h)
    before = {"partitions": ["p=1"], "promised_bytes": 800 * MB, "promised_files": 50, "manifests": 9}
    after = {"files_taken": 50 if result == "done" else 0, "snapshots_expired": 1, "manifests": 3}
    why = "ValidationException: Cannot commit, found new delete for replaced data file" if result == "failed" else ""
    known = {"why": why, "action": action, "result": result, "started_at": at, "finished_at": at, "duration_s": 10.0}
    return {**known, "before": before, "after": after, **values}


def test_lost_races_are_counted_since_the_last_good_rewrite():
    lost = history_from(
        [row(1, "failed"), row(2, "failed", why="3 files could not be rewritten"), row(3), row(4, "failed")]
    )
    assert lost.contested == {"p=1": (2, NOW - timedelta(hours=1))}
    assert history_from([row(1), row(2, "failed")]).contested == {}


def test_a_partition_that_loses_every_race_rests_alone():
    rows = [row(n, "failed") for n in range(1, 7)]
    lost = history_from(rows)
    assert lost.contested == {"p=1": (6, NOW - timedelta(hours=1))}
    assert lost.failures == {}, "its table is not kept waiting"
    final = [{**each, "before": {**each["before"], "final": ["p=1"]}} for each in rows]
    assert history_from(final).failures["compact"][0] == 6, "nobody was expected to write there"


def test_a_table_without_partitions_loses_races_too():
    whole = {"before": {"partitions": []}}
    assert history_from([row(1, "failed", **whole)]).contested == {"": (1, NOW - timedelta(hours=1))}


def test_a_full_disk_lost_no_race():
    assert history_from([row(1, "failed", why="nothing was rewritten: No space left on device")]).contested == {}


def test_a_maker_that_died_lost_no_race_and_was_no_run_that_changed_nothing():
    died = history_from([row(1, "failed", after=None, why="its process died")])
    assert (died.contested, died.idle) == ({}, {})
    assert died.failures["compact"][0] == 1


def test_runs_that_changed_nothing_are_counted_up_to_the_last_that_did():
    nothing = {"after": {"manifests": 9}}
    rows = [row(n, "failed", "manifests", **nothing) for n in (1, 2, 3)]
    assert history_from([*rows, row(4, action="manifests"), row(5, "failed", "manifests", **nothing)]).idle == {
        "manifests": (3, NOW - timedelta(hours=1))
    }
    none = {"after": {"snapshots_expired": 0}}
    assert history_from([row(1, "failed", "expire", **none)]).idle["expire"][0] == 1
    assert history_from([row(1, "failed")]).idle["compact"][0] == 1
    assert history_from([row(1)]).idle == {}


def test_the_pace_is_learned_from_good_runs_alone():
    slow = history_from([row(n, duration_s=802.0) for n in range(1, 9)])  # 1 MB a second
    assert slow.paces["compact"].runs == 8
    assert slow.paces["compact"].per_second < 2 * MB
    assert "manifests" not in slow.paces
    assert history_from([row(1, "failed")]).paces == {}


def test_a_final_pass_that_left_more_than_promised_is_remembered_whatever_came_after():
    short = {"before": {"partitions": ["p=1"], "final": ["p=1"]}, "after": {"files_taken": 50}}
    known = history_from([row(1, before={"partitions": ["p=2"]}), row(2, "failed", **short)])
    assert (known.tried, known.finished) == ({"p=1": NOW - timedelta(hours=2)}, {})
    none = {**short, "after": {"files_taken": 0}}
    assert history_from([row(2, "failed", **none)]).tried == {}
