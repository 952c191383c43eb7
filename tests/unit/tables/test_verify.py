"""Each promise has a case in which it is not kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.tables.act.live_rows import verify_live_rows
from lakeward.tables.act.server import Run
from lakeward.tables.facts import Ref, Snapshot
from lakeward.tables.plan.model import Action, Rewrite
from lakeward.tables.verify import Moved, Verdict, verify_compact, verify_deletes, verify_expire, verify_manifests
from lakeward.tables.work import _result

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def snapshot(
    number: int, operation: str = "append", total: int = 100, parent: int | None = -1, **counts: int
) -> Snapshot:
    summary = {"total-records": str(total)} | {key.replace("_", "-"): str(value) for key, value in counts.items()}
    above = number - 1 if parent == -1 else parent
    return Snapshot(number, above or None, number, NOW - timedelta(minutes=60 - number), operation, summary)


def rewrite(number: int, total: int = 100, rows: int = 100) -> Snapshot:
    return snapshot(number, "replace", total, added_records=rows, deleted_records=rows, added_data_files=1)


COMPACT = Action("compact", "", files=10, rewrites=(Rewrite("final", ("p=1",), ("x",), 96, 128, 10, 1, 1000),))
KEPT = {"p=1": Moved(100, 100, 1, 10)}


@pytest.fixture
def before(facts):
    return facts((snapshot(1),))


def test_a_rewrite_as_promised_is_good(facts, before):
    verdict = verify_compact(COMPACT, before, facts((snapshot(1), rewrite(2))), {2: KEPT})
    assert (verdict.ok, verdict.ours, verdict.why) == (True, (2,), "10 → 1 files rewritten, 100 rows kept")


def test_what_streams_append_meanwhile_is_not_held_against_it(facts, before):
    after = facts(
        (
            snapshot(1),
            snapshot(2, total=150, added_records=50),
            rewrite(3, 150),
            snapshot(4, total=151, added_records=1),
        )
    )
    verdict = verify_compact(COMPACT, before, after, {3: KEPT})
    assert verdict.ok
    assert verdict.figures["records_meanwhile"] == 51, "the ledger's rows before and after differ by these"


@pytest.mark.parametrize("moved", [Moved(99, 100, 1, 10), Moved(101, 100, 1, 10)])
def test_rows_lost_or_doubled_in_a_partition_are_found(facts, before, moved):
    after = facts((snapshot(1), rewrite(2)))
    parts = {"p=1": moved, "p=2": Moved(200 - moved.rows_in, 100, 1, 10)}  # the sum over partitions is right
    verdict = verify_compact(COMPACT, before, after, {2: parts})
    assert (verdict.ok, verdict.harmed) == (False, True)
    assert "in p=1" in verdict.why


def test_deleted_rows_may_go_with_the_rewrite_that_applies_them(facts, before):
    profile = replace(before.profile, delete_files=2)
    after = facts((snapshot(1), snapshot(2, "replace", 90, added_records=90, deleted_records=100)))
    moved = {2: {"p=1": Moved(90, 100, 1, 10)}}
    assert verify_compact(COMPACT, replace(before, profile=profile), after, moved).ok
    more = {2: {"p=1": Moved(110, 100, 1, 10)}}
    assert verify_compact(COMPACT, replace(before, profile=profile), after, more).harmed


def test_a_total_that_does_not_add_up_is_found(facts, before):
    after = facts((snapshot(1), snapshot(2, total=150, added_records=40), rewrite(3, 150)))
    verdict = verify_compact(COMPACT, before, after, {3: KEPT})
    assert (verdict.harmed, verdict.why) == (True, "the table has 150 rows, 140 were expected")


@pytest.mark.parametrize("total", [None, "", "NaN", "1e3", "١٢"])
def test_a_total_that_a_writer_left_out_or_did_not_write_as_a_number_proves_nothing(facts, before, total):
    odd = {"added-records": "50"} if total is None else {"added-records": "50", "total-records": total}
    other = replace(snapshot(2), summary=odd)
    silent = replace(snapshot(2, total=150), summary={"total-records": "150"})
    for commits in ((other, rewrite(3, 150)), (rewrite(2), replace(other, id=3, parent=2)), (silent, rewrite(3, 150))):
        ours = next(each.id for each in commits if each.operation == "replace")
        verdict = verify_compact(COMPACT, before, facts((snapshot(1), *commits)), {ours: KEPT})
        assert verdict.ok, verdict.why
    wrong = facts((snapshot(1), other, rewrite(3, 150), rewrite(4, 149)))
    assert verify_compact(COMPACT, before, wrong, {3: KEPT, 4: KEPT}).harmed


@pytest.mark.parametrize("operation", ["delete", "overwrite"])
def test_rows_that_others_change_are_theirs_and_each_commit_is_proven(facts, before, operation):
    after = facts((snapshot(1), snapshot(2, operation, 99, deleted_records=1), rewrite(3, 99)))
    verdict = verify_compact(COMPACT, before, after, {3: KEPT})
    assert (verdict.ok, verdict.why) == (
        True, "10 → 1 files rewritten, 100 rows kept; 1 commit of other writers changed rows meanwhile"
    )  # fmt: skip
    lost = facts((snapshot(1), snapshot(2, operation, 99, deleted_records=1), rewrite(3, 98)))
    assert verify_compact(COMPACT, before, lost, {3: KEPT}).harmed


def test_files_that_others_remove_are_not_promised_any_more(facts, before):
    half = snapshot(2, "delete", 50, deleted_records=50, deleted_data_files=5)
    moved = {3: {"p=1": Moved(50, 50, 1, 5)}}
    assert verify_compact(COMPACT, before, facts((snapshot(1), half, rewrite(3, 50))), moved).ok
    assert not verify_compact(COMPACT, before, facts((snapshot(1), rewrite(2))), {2: moved[3]}).ok
    emptied = facts((snapshot(1), snapshot(2, "delete", 0, deleted_records=100, deleted_data_files=10)))
    verdict = verify_compact(COMPACT, before, emptied, {})
    assert (verdict.ok, verdict.changed) == (True, False)
    assert verdict.why == "nothing was left to rewrite: others removed 10 files meanwhile"


def test_delete_files_that_come_meanwhile_are_applied(facts, before):
    marked = snapshot(2, "delete", 100, added_delete_files=1)
    after = facts((snapshot(1), marked, snapshot(3, "replace", 90, added_records=90, deleted_records=100)))
    assert verify_compact(COMPACT, before, after, {3: {"p=1": Moved(90, 100, 1, 10)}}).ok
    assert verify_compact(COMPACT, before, after, {3: {"p=1": Moved(110, 100, 1, 10)}}).harmed


def test_live_rows_are_counted_when_delete_files_come_meanwhile(facts, before):
    marked = snapshot(2, "delete", 100, added_delete_files=1)
    after = facts((snapshot(1), marked, snapshot(3, "replace", 90, added_records=90, deleted_data_files=10)))
    verdict = Verdict(True, "as promised")

    def counts(statement: str) -> list[dict[str, object]]:
        return [{"live": 89 if statement.endswith(" 3") else 90}]

    found = verify_live_rows(counts, COMPACT, before, after, verdict)
    assert (found.harmed, found.why) == (True, "89 rows are live, 90 before: the rewrite lost deletes, or rows")
    had = replace(before, profile=replace(before.profile, delete_files=1))
    shorter = replace(after, snapshots=after.snapshots[2:])  # another writer expired what the rewrite was made on
    unproven = verify_live_rows(counts, COMPACT, had, shorter, verdict)
    assert (unproven.ok, unproven.harmed) == (False, False)
    assert unproven.why.endswith("its live rows cannot be compared: snapshot 2 was expired meanwhile")


def test_an_expiry_by_others_hides_no_rewrite_and_is_no_fault(facts, before):
    after = facts((rewrite(3, 150),))  # 2 brought 50 rows, and is expired
    assert verify_compact(COMPACT, before, after, {3: KEPT}).ok
    assert verify_compact(COMPACT, before, after, {3: {"p=1": Moved(99, 100, 1, 10)}}).harmed


def test_files_must_fall_as_promised(facts, before):
    after = facts((snapshot(1), rewrite(2)))
    assert verify_compact(COMPACT, before, after, {2: {"p=1": Moved(100, 100, 2, 10)}}).ok
    verdict = verify_compact(COMPACT, before, after, {2: {"p=1": Moved(100, 100, 3, 10)}})
    assert (verdict.ok, verdict.harmed, verdict.why) == (False, False, "files fell by 7, 9 were promised")


def test_green_without_a_commit_is_a_failure(facts, before):
    verdict = verify_compact(COMPACT, before, facts((snapshot(1), snapshot(2, total=101, added_records=1))), {})
    assert (verdict.ok, verdict.harmed) == (False, False)
    assert "there is no commit" in verdict.why


def test_failures_the_procedure_admits_are_failures(facts, before):
    assert not verify_compact(COMPACT, before, facts((snapshot(1), rewrite(2))), {2: KEPT}, failed_files=1).ok


def test_a_table_rolled_back_under_the_rewrite_is_reported_and_what_was_made_on_it_is_proven(facts):
    start = facts((snapshot(1), snapshot(2)))
    after = facts((snapshot(1), snapshot(2), rewrite(3, 100), snapshot(4)))
    after = replace(after, snapshots=(snapshot(1), snapshot(2), replace(rewrite(3), parent=1)), snapshot_id=3)
    verdict = verify_compact(COMPACT, start, after, {3: KEPT})
    assert (verdict.ok, verdict.harmed) == (False, False)
    assert verdict.why == ("another writer moved main back to snapshot 1 meanwhile; 10 → 1 files were rewritten on it")
    assert verify_compact(COMPACT, start, after, {3: {"p=1": Moved(99, 100, 1, 10)}}).harmed
    alone = replace(after, snapshots=(snapshot(1), snapshot(2)), snapshot_id=1)
    assert verify_compact(COMPACT, start, alone, {}).why.endswith("meanwhile; nothing was rewritten on it")
    other = replace(after, snapshots=(snapshot(9, parent=None),), snapshot_id=9, sequence=9)
    assert verify_compact(COMPACT, start, other, {}).harmed, "main continues nothing that it held"


MERGE = Action("deletes", "", files=12)


def merge(number: int, taken: int, given: int, operation: str = "replace", **counts: int) -> Snapshot:
    added = {"added_delete_files": given} if given else {}
    return snapshot(number, operation, removed_delete_files=taken, **added, **counts)


@pytest.mark.parametrize("ours", [False, True])
def test_a_table_whose_content_was_replaced_meanwhile_is_reported_and_held_for_nobody(facts, ours):
    start = facts((snapshot(1), snapshot(2)))
    new = snapshot(3, parent=None, total=7, added_records=7)  # CREATE OR REPLACE TABLE .. AS SELECT
    chain = (new, *((replace(rewrite(4, 7, 7), parent=3),) if ours else ()))
    after = facts((snapshot(1), snapshot(2), *chain), head=chain[-1].id)
    compacted = verify_compact(COMPACT, start, after, {4: {"": Moved(7, 7, 1, 2)}} if ours else {})
    did = "2 → 1 files were" if ours else "nothing was"
    why = "another writer replaced the content of the table meanwhile"
    assert (compacted.ok, compacted.harmed, compacted.why) == (False, False, f"{why}; {did} rewritten on it")
    for other in (verify_manifests(start, after), verify_deletes(MERGE, start, after)):
        assert (other.ok, other.harmed, other.why) == (False, False, why)
    assert verify_compact(COMPACT, start, after, {4: {"": Moved(6, 7, 1, 2)}}).harmed == ours, "each commit is proven"
    expired = verify_expire(EXPIRE, start, replace(after, snapshots=after.snapshots[1:]), {1}, {"s": 2}, NOW)
    assert (expired.ok, expired.harmed, expired.why) == (False, False, why)


def test_manifests_and_delete_files_of_a_table_that_was_rolled_back_meanwhile(facts):
    start = facts((snapshot(1), snapshot(2)))
    after = facts((snapshot(1), snapshot(2), replace(merge(3, 5, 1), parent=1)), head=3)
    for verdict in (verify_manifests(start, after), verify_deletes(MERGE, start, after)):
        assert (verdict.ok, verdict.harmed) == (False, False)
        assert verdict.why == "another writer moved main back to snapshot 1 meanwhile"
        assert verdict.ours == (3,)


def test_delete_files_that_others_remove_are_not_promised_any_more(facts):
    start = facts((snapshot(1),))
    alone = verify_deletes(MERGE, start, facts((snapshot(1), merge(2, 14, 2))))
    assert (alone.ok, alone.why) == (True, "14 → 2 delete files")
    both = (snapshot(1), merge(2, 7, 0, "overwrite"), merge(3, 7, 1))
    assert verify_deletes(MERGE, start, facts(both)).ok, "the rest of a partition that was overwritten"
    assert not verify_deletes(MERGE, start, facts((snapshot(1), snapshot(2, "overwrite"), merge(3, 7, 1)))).ok
    others = verify_deletes(MERGE, start, facts((snapshot(1), merge(2, 14, 0, "replace", added_data_files=1))))
    assert (others.ok, others.changed) == (True, False)
    assert others.why == "nothing was left to merge: others removed 14 delete files meanwhile"


def manifests(facts, number: int, *snapshots: Snapshot, files: int = 5):
    table = facts(snapshots, manifests=number)
    return replace(table, profile=replace(table.profile, files=files))


def test_manifests_must_become_fewer_and_name_the_same_files(facts):
    start = manifests(facts, 20, snapshot(1))
    done = snapshot(2, "replace")
    assert verify_manifests(start, manifests(facts, 1, snapshot(1), done)).ok
    assert verify_manifests(start, manifests(facts, 1, snapshot(1), done, files=4)).harmed
    assert not verify_manifests(start, manifests(facts, 20, snapshot(1), done)).ok
    assert not verify_manifests(start, manifests(facts, 20, snapshot(1))).ok


def test_manifests_that_are_as_many_as_before_are_no_change_whoever_added_them(facts):
    start = manifests(facts, 12, snapshot(1))
    commits = (snapshot(1), snapshot(2), snapshot(3, "replace"))
    same = verify_manifests(start, manifests(facts, 12, *commits))
    assert (same.ok, same.changed) == (True, False)
    assert same.why == "12 → 12 manifests: 1 commit meanwhile added as many as the rewrite merged"
    assert _result(Run(), same) == ("skipped", same.why)
    fewer = verify_manifests(start, manifests(facts, 3, *commits))
    assert (fewer.changed, _result(Run(), fewer)[0]) == (True, "done")


def test_files_that_came_during_a_rewrite_are_reported_with_those_it_rewrote(facts, before):
    other = snapshot(3, added_data_files=4)
    after = facts((snapshot(1), rewrite(2), other))
    assert verify_compact(COMPACT, before, after, {2: KEPT}).why == (
        "10 → 1 files rewritten, 4 came meanwhile, 100 rows kept"
    )


EXPIRE = Action("expire", "", files=3, older_than=NOW - timedelta(minutes=55), retain_last=1)
FIVE = tuple(snapshot(n) for n in range(1, 8))


def test_an_expiry_as_promised_is_good(facts):
    verdict = verify_expire(EXPIRE, facts(FIVE), facts(FIVE[4:]), {1, 2, 3, 4}, {}, NOW)
    assert (verdict.ok, verdict.why) == (True, "4 snapshots went, 3 kept")
    later = (*FIVE[4:], snapshot(8))
    assert verify_expire(EXPIRE, facts(FIVE), facts(later), {1, 2, 3, 4}, {}, NOW).ok


def test_a_snapshot_too_young_to_go_is_missed(facts):
    assert verify_expire(EXPIRE, facts(FIVE), facts(FIVE[5:]), {1, 2, 3, 4}, {}, NOW).harmed


def test_fewer_than_promised_is_a_failure(facts):
    assert not verify_expire(EXPIRE, facts(FIVE), facts(FIVE), {1, 2, 3, 4}, {}, NOW).ok
    assert not verify_expire(EXPIRE, facts(FIVE), facts(FIVE[3:]), {1, 2, 3, 4}, {}, NOW).ok


def test_main_moved_back_is_found_and_is_a_fault_of_the_expiry_only_if_it_removed_the_head(facts):
    moved = verify_expire(EXPIRE, facts(FIVE), facts(FIVE[4:], head=6), {1, 2, 3, 4}, {"s": 7}, NOW)
    assert (moved.ok, moved.harmed) == (False, False)
    assert moved.why == "another writer moved main back to snapshot 6 meanwhile"
    assert verify_expire(EXPIRE, facts(FIVE), facts(FIVE[4:6], head=6), {1, 2, 3, 4}, {}, NOW).harmed


def test_a_ref_without_its_snapshot_is_found(facts):
    refs = {"verified": Ref("branch", 2)}
    assert verify_expire(EXPIRE, facts(FIVE, refs=refs), facts(FIVE[4:], refs=refs), {1, 2, 3, 4}, {}, NOW).harmed
    assert verify_expire(EXPIRE, facts(FIVE, refs=refs), facts(FIVE[4:]), {1, 2, 3, 4}, {}, NOW).harmed


def test_a_position_that_was_on_main_may_expire_and_no_other(facts):
    held = {"s": Position(seq=1, query_id="q", batch=0, end={}, snapshot=2, snapshot_seq=2)}
    start, after = facts(FIVE, positions=held), facts(FIVE[4:], positions=held)
    assert verify_expire(EXPIRE, start, after, {1, 2, 3, 4}, {"s": 2}, NOW).ok
    assert verify_expire(EXPIRE, start, after, {1, 2, 3, 4}, {}, NOW).harmed


def test_a_ref_whose_age_was_over_may_be_gone_and_is_reported(facts):
    refs = {"main": Ref("branch", 5), "lakeward-2026-02-20": Ref("tag", 2, expires_after_ms=60_000)}
    verdict = verify_expire(EXPIRE, facts(FIVE, refs=refs), facts(FIVE[4:]), {1, 2, 3, 4}, {}, NOW)
    assert verdict.ok
    assert verdict.why.endswith("and 1 ref whose age was over")
    young = {**refs, "lakeward-2026-02-20": Ref("tag", 2, expires_after_ms=86_400_000)}
    assert verify_expire(EXPIRE, facts(FIVE, refs=young), facts(FIVE[4:]), {1, 2, 3, 4}, {}, NOW).harmed
