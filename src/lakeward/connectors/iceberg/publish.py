"""Publishes a staged snapshot together with the new position, by one exact compare-and-set on the table's metadata.

`commitTransaction()` is never used: its retries rebuild on the table's new state, set the property without a check, and
check only appends for duplicates. Here the checked metadata is the metadata that is replaced: if it changed, the commit
fails, and everything is read and checked again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import Build
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import fence, jvm
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.iceberg.stage import Staged
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNCOUNTED = ("unstaged", "no-position")
"""The block reasons of rows on main that no position counts."""


class PositionMoved(Exception):
    """Raised when the position is not the checked one; the writer returns to step 1."""


class StagedGone(Exception):
    """Raised when the staged snapshot is missing (expired) or is another attempt's; the writer returns to step 1."""


class HeadMoved(Exception):
    """Raised when the write depends on a snapshot that is no longer main's head: the batch is written again."""


Take = Callable[[Any, Staged], Any]
"""(transaction, staged) -> the snapshot that becomes main's head."""


@dataclass(frozen=True)
class Published:
    """The result of a publication: the position now in the table."""

    position: Position


def publish(table: Any, checked: TableState, staged: Staged, build: Build, take: Take, *, catalog: str) -> Published:
    """Make `staged` visible and move the position, in one commit.

    Args:
        table: the table object, of any age: a transaction refreshes its metadata.
        checked: the table's state in step 1.
        staged: the snapshot to publish.
        build: returns the new position.
        take: makes the staged snapshot main's head within a transaction, and returns the new head.
        catalog: the name of the lake's catalog, for commands.

    Raises:
        PositionMoved, StagedGone, HeadMoved: see these classes.
        Blocked: since step 1 the table was rolled back or replaced, or its staging was switched off.
        Exception: of the JVM; the caller classifies it with `jvm.trouble`.
    """
    transaction = table.newTransaction()
    start = transaction.startMetadata()
    now = jvm.state_of(start, checked.stream, checked.table)
    if now.raw != checked.raw:
        raise PositionMoved
    on_main = is_on_main(start, staged)
    # A rollback does not change the property: only a new walk detects one between step 1 and here.
    halt = check_table(now, catalog)
    if halt is not None and not (on_main and halt.reason in _UNCOUNTED and now.staging and _whole(now)):
        raise halt.error()
    take(transaction, staged)
    published = fence.move_tag(transaction, checked.stream)
    moved = build(published.snapshotId(), published.sequenceNumber())
    commit(transaction, position.key(checked.stream), moved.to_json())
    return Published(moved)


def take(transaction: Any, staged: Staged, *, head_must_be_parent: bool) -> Any:
    """Make the staged snapshot main's head within a transaction; returns the new head.

    Raises:
        StagedGone, HeadMoved: see these classes.
    """
    start = transaction.startMetadata()
    still_staged(start, staged)
    head = start.currentSnapshot()
    if is_on_main(start, staged):
        return head
    if head_must_be_parent and (head.snapshotId() if head is not None else None) != staged.parent:
        raise HeadMoved
    transaction.manageSnapshots().cherrypick(staged.snapshot).commit()
    return transaction.currentMetadata().currentSnapshot()


def still_staged(metadata: Any, staged: Staged) -> None:
    """Raise `StagedGone` unless the metadata has the staged snapshot of this attempt."""
    link = jvm.link_of(metadata.snapshot(staged.snapshot))
    if link is None or link.attempt != staged.attempt:
        raise StagedGone


def is_on_main(metadata: Any, staged: Staged) -> bool:
    """Whether main moved directly from the parent of the staged snapshot to the staged snapshot.

    Iceberg can do that by itself: when the answer of the staging commit is lost, JdbcCatalog sends the commit again and
    takes the refusal for a failure. The next attempt finds a snapshot of its own id, and takes that for a rollback to
    it. Then the rows are on main and only the position is missing. A head in between would be lost from main.
    """
    head = metadata.currentSnapshot()
    if head is None or head.snapshotId() != staged.snapshot:
        return False
    log = [entry.snapshotId() for entry in metadata.snapshotLog()]
    before = log[-2] if len(log) > 1 else None
    return log[-1:] == [staged.snapshot] and before == staged.parent


def _whole(state: TableState) -> bool:
    """Whether all rows that the position counts are in the table."""
    return state.position is None or state.ancestry.right


def write_position(session: SparkSession, table: str, stream: str, new: Position, expected: str | None) -> Position:
    """Set a stream's position without any data: the primitive of import, reset and restore.

    `snapshot` and `snapshot_seq` of `new` are replaced by main's head, which is an empty snapshot of this commit where
    the catalog compares refs only.

    Args:
        expected: the property as it was read; None if there was no position.

    Raises:
        PositionMoved: the table has another position than `expected`.
        Exception: of the JVM; after a failed commit nothing was written.
    """
    transaction = jvm.load(session, table).newTransaction()
    start = transaction.startMetadata()
    if start.properties().get(position.key(stream)) != expected:
        raise PositionMoved
    head = fence.move_tag(transaction, stream)
    moved = new.model_copy(
        update={
            "snapshot": head.snapshotId() if head is not None else None,
            "snapshot_seq": head.sequenceNumber() if head is not None else 0,
        }
    )
    commit(transaction, position.key(stream), moved.to_json())
    return moved


def remove_position(session: SparkSession, table: str, stream: str, expected: str) -> None:
    """Remove the position of a stream that has ended for good from its table.

    Raises:
        PositionMoved: the table has another position than `expected`.
        Exception: of the JVM; after a failed commit nothing was changed.
    """
    transaction = jvm.load(session, table).newTransaction()
    start = transaction.startMetadata()
    if start.properties().get(position.key(stream)) != expected:
        raise PositionMoved
    fence.move_tag(transaction, stream)
    transaction.updateProperties().remove(position.key(stream)).commit()
    transaction.underlyingOps().commit(transaction.startMetadata(), transaction.currentMetadata())
    fence.drop_tag(jvm.load(session, table), stream)


def commit(transaction: Any, key: str, text: str) -> None:
    """Set a property and commit the transaction, in one attempt, on exactly the metadata it began with."""
    transaction.updateProperties().set(key, text).commit()
    failpoints.hit("before-publish")
    transaction.underlyingOps().commit(transaction.startMetadata(), transaction.currentMetadata())
    failpoints.hit("after-publish")
