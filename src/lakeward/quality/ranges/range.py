"""The range of a check run: which rows it has to check. Pure: metadata and proofs in, a range out.

A *proof* is a recorded run that passed (or passed with warnings). It names the snapshot up to which the table is
proven. The range goes from the newest proof that is on main, exclusive, to the head at the run's start, inclusive.
Commits that land meanwhile belong to the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile

from lakeward.platform.errors import expect
from lakeward.quality.ranges.snapshot_chain import Chain, Cut, History, Mark, Snapshot, between

WINDOW = timedelta(hours=24)  # length of `scope: window`, by commit time


class Kind(StrEnum):
    """How the new rows can be read."""

    EMPTY = "empty"  # nothing new
    INCREMENT = "increment"  # appends, and compactions between them: exactly the appended rows
    CHANGES = "changes"  # rows rewritten too: by row lineage, exactly the rows written in the range that still exist
    TABLE = "table"  # new rows cannot be separated from old ones: the whole table at the head


@dataclass(frozen=True)
class Range:
    """The rows to prove.

    Attributes:
        kind: how its rows can be read.
        base: the proven snapshot it starts after; None when no snapshot on main is proven.
        head: the snapshot it ends with; None for a table without a snapshot.
        snapshots: between the two, oldest first.
        why: one sentence: the content of the range, or why the whole table has to be read.
        cut: why the newest proof could not be the base.
        noun: the table format's term for a snapshot.
    """

    table: str
    kind: Kind
    base: Mark | None
    head: Snapshot | None
    snapshots: tuple[Snapshot, ...]
    why: str
    cut: Cut | None = None
    noun: str = "snapshot"

    @property
    def appends(self) -> tuple[Snapshot, ...]:
        """The snapshots that added rows, oldest first."""
        return tuple(snapshot for snapshot in self.snapshots if snapshot.operation == "append" and snapshot.added)

    @property
    def rewritten(self) -> bool:
        """Whether its rows are selected by row lineage."""
        return self.kind is Kind.CHANGES

    @property
    def writes(self) -> tuple[Snapshot, ...]:
        """The snapshots that added or rewrote rows, oldest first."""
        return tuple(
            snapshot for snapshot in self.snapshots if snapshot.operation in ("append", "overwrite") and snapshot.added
        )

    @property
    def rows(self) -> int | None:
        """Number of rows to read; None if no commit states it, for the whole table or for rewritten rows."""
        if self.kind is Kind.TABLE:
            return self.head.total if self.head else None
        if self.kind is Kind.CHANGES and self.writes:
            return None  # an overwrite states the rows of whole files, most of them unchanged
        return sum(append.added for append in self.appends)


@dataclass(frozen=True)
class Read:
    """The rows a check reads: rows appended in (`start`, `end`]; or rows at `end` that a commit after the sequence
    number `since` wrote; or the whole table at `end` when both are None.
    """

    start: int | None
    end: int
    since: int | None = None

    @property
    def whole(self) -> bool:
        """Whether every row at `end` is read."""
        return self.start is None and self.since is None


def decide(history: History, proofs: Sequence[Mark]) -> Range:
    """The range of this run.

    Args:
        history: the metadata at the run's start.
        proofs: proven snapshots, newest run first.
    """
    return replace(_decide(history, proofs), noun=history.noun)


def _decide(history: History, proofs: Sequence[Mark]) -> Range:
    table = history.table
    head = history.snapshots.get(history.head) if history.head is not None else None
    if head is None:
        return Range(table, Kind.EMPTY, None, None, (), "the table has no snapshot yet")
    if not proofs:
        chain = between(history, None, head.id)
        note = "; the branch `verified` was not created by Lakeward" if history.verified is not None else ""
        return Range(table, Kind.TABLE, None, head, chain.snapshots, f"first check: the whole table{note}")
    base, chain = proofs[0], between(history, proofs[0], head.id)
    if chain.cut is None:
        return _classify(history, base, head, chain)
    reason = _describe(history, chain.cut, base, head, chain)
    for older in proofs[1:]:  # after a rollback the newest proof that is still on main remains valid
        below = between(history, older, head.id)
        if below.cut is None:
            found = _classify(history, older, head, below)
            return Range(table, found.kind, older, head, found.snapshots, f"{reason}; {found.why}", chain.cut)
    whole = between(history, None, head.id)
    return Range(table, Kind.TABLE, None, head, whole.snapshots, f"{reason}: the whole table", chain.cut)


def reading(found: Range, history: History, scope: str, now: datetime) -> Read | None:
    """The rows a check of this scope reads; None when there are none.

    Args:
        found: the range.
        history: the metadata the range was decided on.
        scope: `increment`, `window` or `table`.
        now: the run's start, UTC.
    """
    if found.head is None:
        return None
    whole = Read(None, found.head.id)
    if scope == "table":
        return whole
    if scope == "window":
        return _window(found, history, now) or whole
    if found.kind is Kind.TABLE:
        return whole
    if found.base is None or found.rows == 0:
        return None
    if found.kind is Kind.CHANGES:
        return Read(None, found.head.id, found.base.sequence)
    return Read(found.base.snapshot, found.head.id)


def appended(history: History, read: Read) -> tuple[Snapshot, ...]:
    """The snapshots whose rows a read of appends returns, newest first; empty for any other read."""
    if read.start is None:
        return ()
    line = takewhile(lambda snapshot: snapshot.id != read.start, history.ancestry(read.end))
    return tuple(each for each in line if each.operation == "append" and each.added)


def changes_rows(snapshots: Sequence[Snapshot], before: Snapshot | None) -> str | None:
    """The first commit that an incremental read would silently omit, as a clause; None when there is none."""
    return miscounts(snapshots, before) or rewrites(snapshots)


def rewrites(snapshots: Sequence[Snapshot]) -> str | None:
    """The first commit that rewrites rows in place, as a clause."""
    found = next((snapshot for snapshot in snapshots if snapshot.operation in ("overwrite", "delete")), None)
    if found is None:
        return None
    return found.why or f"snapshot {found.id} ({found.operation}) rewrites rows in place"


def miscounts(snapshots: Sequence[Snapshot], before: Snapshot | None) -> str | None:
    """The first compaction that changed the row count, as a clause."""
    previous = before
    for snapshot in snapshots:
        if snapshot.operation == "replace" and previous is not None and not previous.delete_files:
            known = snapshot.total is not None and previous.total is not None
            if known and snapshot.total != previous.total:
                return f"compaction {snapshot.id} changed the row count from {previous.total} to {snapshot.total}"
        previous = snapshot
    return None


def _classify(history: History, base: Mark, head: Snapshot, chain: Chain) -> Range:
    table, snapshots = history.table, chain.snapshots
    if not snapshots:
        return Range(table, Kind.EMPTY, base, head, (), f"nothing new since {history.noun} {base.snapshot}")
    rewritten = rewrites(snapshots)
    if rewritten and any(snapshot.why for snapshot in snapshots):
        return Range(table, Kind.TABLE, base, head, snapshots, f"{rewritten}: the whole table")
    if rewritten:
        reason = miscounts(snapshots, history.snapshots.get(base.snapshot)) or untraced(base, head)
        if reason:
            return Range(table, Kind.TABLE, base, head, snapshots, f"{rewritten}, and {reason}: the whole table")
        text = f"{rewritten}: rows changed since snapshot {base.snapshot}, by row lineage"
        return Range(table, Kind.CHANGES, base, head, snapshots, text)
    reason = miscounts(snapshots, history.snapshots.get(base.snapshot))
    if reason:
        return Range(table, Kind.TABLE, base, head, snapshots, f"{reason}: the whole table")
    compactions = sum(snapshot.operation == "replace" for snapshot in snapshots)
    count = len(snapshots) - compactions
    text = f"{count} commit{'' if count == 1 else 's'} since {history.noun} {base.snapshot}"
    if compactions:
        text += f" and {compactions} compaction{'' if compactions == 1 else 's'} (no new rows)"
    return Range(table, Kind.INCREMENT, base, head, snapshots, text)


def untraced(start: Mark, end: Snapshot) -> str | None:
    """Why the rows at `end` cannot be selected by the commit that wrote them, as a clause; None when they can.

    Every commit after `start` has a greater sequence number and sets it on each row it writes; unchanged rows keep an
    older one.
    """
    if not start.sequence:
        return f"the sequence number of snapshot {start.snapshot} is unknown"
    return None if end.traced else f"snapshot {end.id} has no row lineage (format version 3 has)"


def _window(found: Range, history: History, now: datetime) -> Read | None:
    """The commits of the last `WINDOW`, and never fewer than the range; None when the whole table must be read."""
    if found.kind is Kind.TABLE or found.base is None:
        return None
    head = expect(found.head, "the newest snapshot of a range")
    passed_base = False
    inside: list[Snapshot] = []
    for snapshot in history.ancestry(head.id):
        passed_base = passed_base or snapshot.id == found.base.snapshot
        if passed_base and snapshot.at <= now - WINDOW:
            part = inside[::-1]
            if not changes_rows(part, snapshot):
                return Read(snapshot.id, head.id)
            traced = not miscounts(part, snapshot) and not untraced(snapshot.mark, head)
            return Read(None, head.id, snapshot.sequence) if traced else None
        inside.append(snapshot)
    return None  # the window starts before the first remaining snapshot: read the whole table


def _describe(history: History, cut: Cut, proof: Mark, head: Snapshot, chain: Chain) -> str:
    noun, line = history.noun, "main" if history.noun == "snapshot" else "the table"
    verified = f"verified {noun} {proof.snapshot}"
    if cut is Cut.WRONG_ORDER:
        return f"{line} was rolled back to {noun} {head.id}, which is older than {verified}"
    if cut is Cut.ROLLED_BACK:
        return f"{line} was rolled back to before {verified} and then continued to {noun} {head.id}"
    if cut is Cut.REPLACED:
        return f"the table was replaced since {verified}"
    oldest = chain.snapshots[0].id if chain.snapshots else head.id
    return f"{noun}s after {verified} were expired before they were checked (the oldest remaining one is {oldest})"
