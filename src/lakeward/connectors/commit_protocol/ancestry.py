"""Snapshot ancestry: checks over the chain of parents that a position's snapshot is still on the main branch.

Table properties do not roll back with `rollback_to_snapshot` and survive `CREATE OR REPLACE`, so the position alone
proves nothing: a walk from main's head over the parents must meet its snapshot. The snapshot log proves nothing after
an expiry either. Sequence numbers only rise along main: they distinguish a chain cut by expiry from a rollback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Link:
    """One snapshot of a chain.

    Attributes:
        snapshot, seq, parent: ids and the sequence number; `parent` is None for a table's first snapshot.
        operation: `append`, `replace`, `overwrite` or `delete`.
        attempt: its snapshot property `lakeward.attempt`, if any.
        wap_id: the id it was staged or published under, if any.
        added: rows in the files it added, where the reader fills it in.
    """

    snapshot: int
    seq: int
    parent: int | None
    operation: str = "append"
    attempt: str | None = None
    wap_id: str | None = None
    added: int = 0


class Finding(StrEnum):
    """How the walk ended."""

    MET = "met"  # the position's snapshot is on main
    EXPIRED = "expired"  # expiry cut the chain above it: valid, because expiry checks positions first
    ROLLED_BACK = "rolled-back"  # main does not contain it: landed rows are not in the table
    REPLACED = "replaced"  # the table was replaced: main's first snapshot is younger than the position


@dataclass(frozen=True)
class Ancestry:
    """The result of a walk.

    Attributes:
        finding: how it ended.
        head: main's head, None for a table without snapshots.
        walked: the snapshots younger than the position's, head first.
        stop: the snapshot, older than the position's, at which a rolled-back walk ended.
    """

    finding: Finding
    head: Link | None = None
    walked: tuple[Link, ...] = ()
    stop: Link | None = None

    @property
    def right(self) -> bool:
        """Whether everything the position calls landed is still in the table."""
        return self.finding in (Finding.MET, Finding.EXPIRED)


def walk(head: int | None, look_up: Callable[[int], Link | None], snapshot: int | None, seq: int) -> Ancestry:
    """Walk main from its head down to a position's snapshot.

    Args:
        head: the id of main's head; None when main has no snapshot.
        look_up: snapshot id -> link; None when the snapshot is not in the metadata (expired).
        snapshot, seq: the position's snapshot and its sequence number; None when there is no position, or the table
            had no snapshot then: no row can be missing, and the walk only lists main's snapshots.
    """
    current = look_up(head) if head is not None else None
    if current is None:
        return Ancestry(Finding.MET if snapshot is None else Finding.REPLACED)
    first = current
    walked: list[Link] = []
    while True:
        if current.snapshot == snapshot:
            return Ancestry(Finding.MET, first, tuple(walked))
        if snapshot is not None and current.seq <= seq:
            return Ancestry(Finding.ROLLED_BACK, first, tuple(walked), current)
        walked.append(current)
        if current.parent is None:
            return Ancestry(Finding.MET if snapshot is None else Finding.REPLACED, first, tuple(walked))
        parent = look_up(current.parent)
        if parent is None:
            return Ancestry(Finding.EXPIRED, first, tuple(walked))
        current = parent


def newest_of(stream: str, head: int | None, look_up: Callable[[int], Link | None]) -> int | None:
    """The newest seq of `stream` on main, by the WAP ids of the snapshots; None if no snapshot has one.

    Only for messages: an expired snapshot's id is missing.
    """
    current = look_up(head) if head is not None else None
    while current is not None:
        seq = seq_of(current.wap_id or "", stream)
        if seq is not None:
            return seq
        current = look_up(current.parent) if current.parent is not None else None
    return None


def seq_of(attempt: str, stream: str) -> int | None:
    """The seq in `<stream>/<seq>/<nonce>`; None for the attempt of another stream, or another text."""
    parts = attempt.split("/")
    if len(parts) != 3 or parts[0] != stream or not parts[1].isdigit():
        return None
    return int(parts[1])
