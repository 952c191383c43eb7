"""The snapshots of a table as a chain of parents, and the snapshots between two of them.

Pure. Never sorted by commit time, which rollbacks and branches make wrong; only parents and sequence numbers define the
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True)
class Mark:
    """A snapshot that may be expired; its sequence number keeps its place in the order."""

    snapshot: int
    sequence: int | None


@dataclass(frozen=True)
class Snapshot:
    """One commit of a table.

    Attributes:
        id, parent, sequence: as in the metadata; `parent` None for a table's first, `sequence` None in format v1.
        at: commit time, UTC.
        operation: `append`, `replace`, `overwrite` or `delete`.
        added: rows in the data files this commit added.
        total, delete_files: rows in data files and delete files of the table after it; None where not stated.
        wap_id: the id it was staged under, `<stream>/<seq>/<nonce>` for a Lakeward stream's batch.
        traced: whether each row has the sequence number of the commit that last wrote it (row lineage, format v3);
            False for a snapshot from before the table was upgraded.
        commit: distinguishes commits of the same `id`, where ids repeat (Delta); None where they do not.
        why: for an `overwrite` or a `delete`: why its rows cannot be separated from older ones, as a clause.
    """

    id: int
    parent: int | None
    sequence: int | None
    at: datetime
    operation: str
    added: int = 0
    total: int | None = None
    delete_files: int | None = None
    wap_id: str | None = None
    traced: bool = False
    commit: str | None = None
    why: str | None = None

    @property
    def mark(self) -> Mark:
        """Its place in the order."""
        return Mark(self.id, self.sequence)


@dataclass(frozen=True)
class History:
    """One version of a table's metadata.

    Attributes:
        head: main's snapshot when it was read; None for a table without a snapshot.
        verified: the snapshot of the branch `verified`; None without that branch.
        snapshots: every snapshot still in the metadata, by id.
        refs: the names of its branches and tags.
        noun: the format's term for a snapshot.
    """

    table: str
    head: int | None
    verified: int | None = None
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict)
    refs: frozenset[str] = frozenset()
    noun: str = "snapshot"

    def ancestry(self, of: int | None) -> Iterator[Snapshot]:
        """`of` and its ancestors as far as the metadata has them, newest first."""
        current = self.snapshots.get(of) if of is not None else None
        while current is not None:
            yield current
            current = self.snapshots.get(current.parent) if current.parent is not None else None

    def on_main(self, snapshot: int) -> bool:
        """Whether the snapshot is main's head or one of its ancestors."""
        return any(each.id == snapshot for each in self.ancestry(self.head))

    def up_to(self, snapshot: int | None) -> History:
        """The history as if main ended at this snapshot; unchanged if the snapshot is off main or proven already."""
        proven = any(each.id == snapshot for each in self.ancestry(self.verified))
        if snapshot is None or proven or not self.on_main(snapshot):
            return self
        return replace(self, head=snapshot)


class Cut(StrEnum):
    """Why no chain of appends leads from one snapshot to another."""

    EXPIRED = "expired"  # snapshots in between are expired
    ROLLED_BACK = "rolled-back"  # main was set to before the start and continued from there
    WRONG_ORDER = "wrong-order"  # the end lies before the start
    REPLACED = "replaced"  # the table was recreated


@dataclass(frozen=True)
class Chain:
    """The snapshots between two snapshots.

    Attributes:
        snapshots: start exclusive to end inclusive, oldest first; with a cut, those above it.
        cut: why the start was not reached; None when it was.
    """

    snapshots: tuple[Snapshot, ...]
    cut: Cut | None = None


def between(history: History, start: Mark | None, end: int) -> Chain:
    """The snapshots after `start` up to `end`; from the table's beginning without a start.

    Iceberg raises the same error for every kind of cut; here they are distinguished.
    """
    walked: list[Snapshot] = []
    for current in history.ancestry(end):
        if start is not None and current.id == start.snapshot:
            return Chain(tuple(reversed(walked)))
        if start is not None and _is_below(current, start):
            return Chain(tuple(reversed(walked)), _off_the_line(history, start, end))
        walked.append(current)
        if current.parent is None or current.parent in history.snapshots:
            continue
        reached = start is None or current.parent == start.snapshot  # an expired start is enough: its child exists
        return Chain(tuple(reversed(walked)), None if reached else _when_expired(history, start, end))
    if start is None:
        return Chain(tuple(reversed(walked)))
    begins_anew = start.sequence is not None and start.snapshot not in history.snapshots
    return Chain(tuple(reversed(walked)), Cut.REPLACED if begins_anew else _off_the_line(history, start, end))


def _is_below(current: Snapshot, start: Mark) -> bool:
    return bool(start.sequence) and current.sequence is not None and current.sequence <= (start.sequence or 0)


def _off_the_line(history: History, start: Mark, end: int) -> Cut:
    backwards = any(snapshot.id == end for snapshot in history.ancestry(start.snapshot))
    if backwards:
        return Cut.WRONG_ORDER
    if start.snapshot in history.snapshots and _root(history, start.snapshot) != _root(history, end):
        return Cut.REPLACED
    return Cut.ROLLED_BACK


def _when_expired(history: History, start: Mark | None, end: int) -> Cut:
    """The chain ends at an expired parent. A start that still exists was left behind by a rollback, unless only a
    branch or tag kept it and the snapshots between were expired too; the metadata cannot distinguish the two. EXPIRED
    promises less.
    """
    if start is not None and any(snapshot.id == end for snapshot in history.ancestry(start.snapshot)):
        return Cut.WRONG_ORDER
    return Cut.EXPIRED


def _root(history: History, snapshot: int) -> int | None:
    """The id of the oldest ancestor when the chain is complete; None when its beginning is expired."""
    line = list(history.ancestry(snapshot))
    return line[-1].id if line and line[-1].parent is None else None
