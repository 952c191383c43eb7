"""Verifies an action from the metadata before and after it. The procedure's return value is not used.

Rows are compared by partition within each commit of the action (by typed values, and by what the partition specs of the
commit have in common: `observe.commits`), and in total, net of what streams appended meanwhile.
The number of files must have fallen as promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakeward.platform.text import count, span
from lakeward.registry.maintenance import Figures
from lakeward.tables.facts import Snapshot, TableFacts
from lakeward.tables.guard.positions import off_main
from lakeward.tables.partition_values import Partition
from lakeward.tables.plan.model import Action

TOLERANCE = 0.2


@dataclass(frozen=True)
class Moved:
    """Rows and data files that one commit added to and removed from one partition."""

    rows_in: int = 0
    rows_out: int = 0
    files_in: int = 0
    files_out: int = 0


@dataclass(frozen=True)
class Verdict:
    """The outcome.

    Attributes:
        ok: whether the result is as promised.
        why: one sentence: the figures, or the fault.
        harmed: whether rows are, or may be, wrong: roll back or hold expiry.
        ours: the snapshots of the action.
        changed: whether the action changed what it is for; if not, it is skipped, with `why`.
        figures: for the ledger; `.._meanwhile` are commits of others between before and after.
    """

    ok: bool
    why: str
    harmed: bool = False
    ours: tuple[int, ...] = ()
    figures: Figures = field(default_factory=Figures)
    changed: bool = True


def between(before: TableFacts, after: TableFacts) -> list[Snapshot] | None:
    """Main's snapshots committed since, oldest first; None when main lost its earlier head, and no commit explains it.

    After a roll-back by another writer: those above the snapshot that main was moved back to. After an expiry by
    another writer: those that are left. After another writer replaced the content: those of the new content.
    """
    known = {snapshot.id for snapshot in before.main()}
    found: list[Snapshot] = []
    for snapshot in after.main():
        if snapshot.id in known:
            return found[::-1]
        found.append(snapshot)
    if before.snapshot_id is None or after.continues(before):
        return found[::-1]
    if before.snapshot_id in after.by_id():  # not lost: main was moved to another chain
        return [each for each in found[::-1] if each.id not in before.by_id()]
    return None


def moved_away(before: TableFacts, after: TableFacts) -> str:
    """That another writer moved main off the earlier head, as a clause; empty if nobody did."""
    known = {snapshot.id for snapshot in before.main()}
    on = next((snapshot.id for snapshot in after.main() if snapshot.id in known), None)
    if on is None:
        continues = before.snapshot_id is None or after.continues(before)
        return "" if continues else "another writer replaced the content of the table meanwhile"
    return "" if on == before.snapshot_id else f"another writer moved main back to snapshot {on} meanwhile"


def _base(before: TableFacts, commits: Sequence[Snapshot]) -> Snapshot | None:
    """The snapshot that the first of these commits was made on; None if it was expired meanwhile, or never was."""
    return before.by_id().get(commits[0].parent or 0) if commits else before.head


def verify_compact(
    action: Action,
    before: TableFacts,
    after: TableFacts,
    moved: Mapping[int, Mapping[Partition, Moved]],
    *,
    failed_files: int = 0,
) -> Verdict:
    """Judge a compaction.

    Args:
        action: the planned action.
        before, after: the table before and after it.
        moved: snapshot -> partition -> rows and files moved, for every `replace` snapshot since.
        failed_files: the number of failed files that the procedure reported.

    What others deleted or replaced meanwhile is theirs: each commit is judged by its own files and totals.
    """
    commits = between(before, after)
    if commits is None:
        return Verdict(False, f"main no longer holds snapshot {before.snapshot_id}, where the rewrite began", True)
    ours = tuple(commit.id for commit in commits if moved.get(commit.id))
    foreign = [commit for commit in commits if commit.operation in ("overwrite", "delete")]
    parts = [(commit, str(name), did) for commit in commits for name, did in moved.get(commit.id, {}).items()]
    taken = sum(did.files_out for _, _, did in parts)
    given = sum(did.files_in for _, _, did in parts)
    others = [commit for commit in commits if commit.id not in ours]
    figures: Figures = {
        "files_taken": taken, "files_given": given, "commits": len(ours),
        "files_meanwhile": _net(others, "data-files"),
        "records_meanwhile": _net(others, "records"),
    }  # fmt: skip
    # The rows of Delta's files are counted without those of their deletion vectors.
    deletes = before.format != "delta" and (
        before.profile.delete_files > 0 or any(commit.count("added-delete-files") for commit in commits)
    )
    wrong = _rows(parts, before, after, commits, deletes=deletes)
    if wrong:
        return Verdict(False, wrong, True, ours, figures)
    if away := moved_away(before, after):
        did = f"{taken} → {given} files were" if ours else "nothing was"
        return Verdict(False, f"{away}; {did} rewritten on it", False, ours, figures)
    if failed_files:
        return Verdict(False, f"{count(failed_files, 'file')} could not be rewritten", False, ours, figures)
    promised = sum(rewrite.takes - rewrite.gives for rewrite in action.rewrites)
    removed = sum(commit.count("deleted-data-files") for commit in others)
    if not ours:
        why = f"nothing was rewritten: {count(action.files, 'file')} were promised, but there is no commit"
        if removed >= action.files > 0:
            why = f"nothing was left to rewrite: others removed {count(removed, 'file')} meanwhile"
            return Verdict(True, why, False, ours, figures, changed=False)
        return Verdict(False, why, False, ours, figures)
    if taken - given < promised - removed - abs(promised) * TOLERANCE:
        why = f"files fell by {taken - given}, {promised} were promised"
        return Verdict(False, why, False, ours, figures)
    came = _net(others, "data-files")
    meanwhile = f", {came} came meanwhile" if came > 0 else ""
    counted = count(sum(did.rows_in for _, _, did in parts), "row")
    why = f"{taken} → {given} files rewritten{meanwhile}, {counted} kept"
    if foreign:
        why += f"; {count(len(foreign), 'commit')} of other writers changed rows meanwhile"
    return Verdict(True, why, False, ours, figures)


def _net(snapshots: Sequence[Snapshot], what: str) -> int:
    """Files or rows added minus deleted by these commits."""
    return sum(snapshot.count(f"added-{what}") - snapshot.count(f"deleted-{what}") for snapshot in snapshots)


def _rows(
    parts: Sequence[tuple[Snapshot, str, Moved]],
    before: TableFacts,
    after: TableFacts,
    commits: Sequence[Snapshot],
    *,
    deletes: bool,
) -> str:
    for snapshot, name, did in parts:
        # A rewrite that applies delete files omits the deleted rows; then the count may only fall.
        if did.rows_in > did.rows_out or (did.rows_in < did.rows_out and not deletes):
            where = f" in {name}" if name else ""
            return f"snapshot {snapshot.id} took {did.rows_out} rows and gave {did.rows_in}{where}"
    return _total(_base(before, commits), commits)


def _total(base: Snapshot | None, commits: Sequence[Snapshot]) -> str:
    """What is wrong with the total of rows that the commits state; a total that a writer left out proves nothing."""
    known = base.number("total-records") if base is not None else None
    for commit in commits:
        stated, total = (
            [commit.number(f"{what}-records") for what in ("added", "deleted")],
            commit.number("total-records"),
        )
        if known is None or stated == [None, None]:
            known = total
            continue
        expected = known + (stated[0] or 0) - (stated[1] or 0)
        if total is not None and total != expected:
            return f"the table has {total} rows, {expected} were expected"
        known = total
    return ""


def verify_manifests(before: TableFacts, after: TableFacts) -> Verdict:
    """Judge a rewrite of manifests: fewer of them, the same files and rows."""
    commits = between(before, after)
    if commits is None:
        return Verdict(False, f"main no longer holds snapshot {before.snapshot_id}, where the rewrite began", True)
    ours = tuple(
        commit.id for commit in commits if commit.operation == "replace" and not commit.count("added-data-files")
    )
    wrong = _rows((), before, after, commits, deletes=False)
    if wrong:
        return Verdict(False, wrong, True, ours)
    if away := moved_away(before, after):
        return Verdict(False, away, False, ours)
    files = sum(commit.count("added-data-files") - commit.count("deleted-data-files") for commit in commits)
    whole = not commits or commits[0].parent == before.snapshot_id
    if whole and after.profile.files != before.profile.files + files:
        expected = before.profile.files + files
        return Verdict(False, f"the table has {after.profile.files} files, {expected} were expected", True, ours)
    if not ours:
        return Verdict(False, "nothing was rewritten: no commit came", False, ours)
    meanwhile = len(commits) - len(ours)
    if after.profile.data_manifests - meanwhile >= before.profile.data_manifests:
        why = f"there are {after.profile.data_manifests} manifests, {before.profile.data_manifests} before"
        return Verdict(False, why, False, ours)
    why = f"{before.profile.data_manifests} → {after.profile.data_manifests} manifests"
    if after.profile.data_manifests >= before.profile.data_manifests:
        why = f"{why}: {count(meanwhile, 'commit')} meanwhile added as many as the rewrite merged"
        return Verdict(True, why, False, ours, changed=False)
    return Verdict(True, why, False, ours)


def verify_deletes(action: Action, before: TableFacts, after: TableFacts) -> Verdict:
    """Judge a merge of delete files: no data file changed, and as many delete files were removed as promised.

    Metadata cannot show that the same rows are deleted as before: see `act.live_rows`.
    """
    commits = between(before, after)
    if commits is None:
        return Verdict(False, f"main no longer holds snapshot {before.snapshot_id}, where the merge began", True)
    ours = [commit for commit in commits if commit.operation == "replace" and commit.count("added-delete-files")]
    ids = tuple(snapshot.id for snapshot in ours)
    touched = [
        snapshot for snapshot in ours if snapshot.count("added-data-files") or snapshot.count("deleted-data-files")
    ]
    if touched:
        return Verdict(False, f"snapshot {touched[0].id} replaced data files, where delete files were meant", True, ids)
    wrong = _rows((), before, after, commits, deletes=True)
    if wrong:
        return Verdict(False, wrong, True, ids)
    if away := moved_away(before, after):
        return Verdict(False, away, False, ids)
    taken = sum(snapshot.count("removed-delete-files") for snapshot in ours)
    given = sum(snapshot.count("added-delete-files") for snapshot in ours)
    figures: Figures = {"delete_files_taken": taken, "delete_files_given": given, "commits": len(ours)}
    removed = sum(commit.count("removed-delete-files") for commit in commits if commit.id not in ids)
    if not ours:
        why = f"nothing was merged: {count(action.files, 'delete file')} were promised, but there is no commit"
        if removed >= action.files > 0:
            why = f"nothing was left to merge: others removed {count(removed, 'delete file')} meanwhile"
            return Verdict(True, why, False, ids, figures, changed=False)
        return Verdict(False, why, False, ids, figures)
    if taken - given < action.files * (1 - TOLERANCE) - removed:
        return Verdict(
            False, f"delete files fell by {taken - given}, {action.files} were promised", False, ids, figures
        )
    return Verdict(True, f"{taken} → {given} delete files", False, ids, figures)


def verify_metadata(action: Action, before: TableFacts, after: TableFacts) -> Verdict:
    """Judge a repair of properties: they are set as planned, and as many metadata files were removed as promised."""
    unset = [name for name, value in action.properties.items() if after.properties.get(name) != value]
    if unset:
        return Verdict(False, f"not set: {', '.join(unset)}")
    if between(before, after) is None:
        return Verdict(False, f"main no longer holds snapshot {before.snapshot_id}, where the repair began", True)
    if away := moved_away(before, after):
        return Verdict(False, away)
    remaining = before.metadata_files - action.files
    if not action.files:
        return Verdict(True, f"set {', '.join(f'{name} = {value}' for name, value in action.properties.items())}")
    if after.metadata_files > remaining:
        return Verdict(
            False, f"{count(after.metadata_files, 'metadata file')} are named still, {remaining} were promised"
        )
    return Verdict(True, f"{before.metadata_files} → {after.metadata_files} metadata files; Iceberg keeps that number")


def verify_tags(action: Action, after: TableFacts) -> Verdict:
    """Judge the creation of a tag: it is on its snapshot, and has its maximum age."""
    tag = action.made_tag
    found = after.refs.get(tag.name)
    if found is None or (found.kind, found.snapshot_id) != ("tag", tag.snapshot_id):
        return Verdict(False, f"there is no tag {tag.name} on snapshot {tag.snapshot_id}")
    if found.expires_after_ms != tag.max_age // timedelta(milliseconds=1):
        return Verdict(False, f"tag {tag.name} does not go after {span(tag.max_age)}")
    return Verdict(True, f"tag {tag.name} on snapshot {tag.snapshot_id}, kept for {span(tag.max_age)}")


def verify_expire(
    action: Action,
    before: TableFacts,
    after: TableFacts,
    promised: set[int],
    checked: Mapping[str, int],
    now: datetime,
) -> Verdict:
    """Judge an expiry: only promised snapshots were removed; main, every ref and every position are intact.

    Args:
        action: the planned action.
        before, after: the table before and after it.
        promised: the snapshots to be removed.
        checked: stream -> the snapshot of its position that this expiry found on main.
        now: a time after it; refs past their maximum age by then may be missing.
    """
    remaining = after.by_id()
    removed = {snapshot.id for snapshot in before.snapshots} - set(remaining)
    named = {name for name, ref in after.refs.items() if ref.snapshot_id not in remaining}
    outlived = before.outlived(now)
    lost = set(before.refs) - set(after.refs) - outlived
    if named or lost:
        return Verdict(False, f"refs lost their snapshot: {', '.join(sorted(named | lost))}", True)
    if before.snapshot_id not in remaining and not after.continues(before):
        why = f"main no longer holds snapshot {before.snapshot_id}, where the expiry began"
        return Verdict(False, why, bool(removed))
    edge = action.older_than
    # Younger snapshots are promised if a branch has an age of its own.
    young = [
        snapshot for snapshot in before.snapshots if snapshot.id in removed - promised and edge and snapshot.at >= edge
    ]
    if young:
        return Verdict(False, f"snapshot {young[0].id} went though it is younger than allowed", True)
    if away := moved_away(before, after):
        return Verdict(False, away)  # the earlier head is still there: a position that is off main now is not our fault
    problems = off_main(after, checked)
    if problems:
        return Verdict(False, problems[0].sentence, True)
    if after.head and before.head and before.snapshot_id == after.snapshot_id:
        rows = (before.head.number("total-records"), after.head.number("total-records"))
        if rows[0] != rows[1]:
            return Verdict(False, f"the table has {rows[1]} rows, {rows[0]} before", True)
    figures: Figures = {"snapshots_expired": len(removed)}
    refs = outlived - set(after.refs)
    too = f", and {count(len(refs), 'ref')} whose age was over" if refs else ""
    if len(removed) < len(promised) * (1 - TOLERANCE) or not removed:
        return Verdict(False, f"{count(len(removed), 'snapshot')} went, {len(promised)} were promised", figures=figures)
    return Verdict(True, f"{count(len(removed), 'snapshot')} went, {len(remaining)} kept{too}", figures=figures)
