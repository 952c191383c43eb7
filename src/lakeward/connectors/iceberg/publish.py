"""Publish a staged snapshot together with the new position, by one exact compare-and-set on the table's metadata.

Never `commitTransaction()`: its retries rebuild on whatever the table has become, set the property blindly, and check
only appends for duplicates. Here the metadata that was checked is the metadata that is swapped; if it changed, the
commit fails and everything is read and checked again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import Build
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.iceberg.stage import Staged
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNCOUNTED = ("unstaged", "no-position")
"""What a check says of rows on main that no position counts."""


class PositionMoved(Exception):
    """The position is not the one that was checked; go back to step 1."""


class StagedGone(Exception):
    """The staged snapshot is not in the metadata any more (expired) or is not ours; go back to step 1."""


class HeadMoved(Exception):
    """The write depends on a head that is not main's any more: the batch must be written again."""


Take = Callable[[Any, Staged], Any]
"""(transaction, staged) -> the snapshot that becomes main's head."""


@dataclass(frozen=True)
class Published:
    """What one publication did: the position as it now stands in the table."""

    position: Position


def publish(table: Any, checked: TableState, staged: Staged, build: Build, take: Take) -> Published:
    """Make `staged` visible and move the position, both or neither.

    Args:
        table: the table, loaded at any time: a transaction reads its metadata afresh.
        checked: the table as step 1 saw it.
        staged: the snapshot to publish.
        build: makes the new position.
        take: makes the staged snapshot main's head within a transaction, and gives the snapshot that becomes it.

    Raises:
        PositionMoved, StagedGone, HeadMoved: see there.
        Blocked: the table was rolled back, replaced or switched to no staging since step 1.
        Exception: the JVM's, to be judged by `java.trouble`.
    """
    transaction = table.newTransaction()
    start = transaction.startMetadata()
    now = jvm.state_of(start, checked.stream, checked.table)
    if now.raw != checked.raw:
        raise PositionMoved
    there = there_already(start, staged)
    # The property does not move with a rollback: between step 1 and here only a new walk can tell.
    halt = check_table(now)
    if halt is not None and not (there and halt.reason in _UNCOUNTED and now.staging and _whole(now)):
        raise halt.error()
    published = take(transaction, staged)
    moved = build(published.snapshotId(), published.sequenceNumber())
    commit(transaction, position.key(checked.stream), moved.to_json())
    return Published(moved)


def take(transaction: Any, staged: Staged, *, head_must_be_parent: bool) -> Any:
    """Make the staged snapshot main's head within a transaction; gives the snapshot that becomes it.

    Raises:
        StagedGone, HeadMoved: see there.
    """
    start = transaction.startMetadata()
    still_staged(start, staged)
    head = start.currentSnapshot()
    if there_already(start, staged):
        return head
    if head_must_be_parent and (head.snapshotId() if head is not None else None) != staged.parent:
        raise HeadMoved
    transaction.manageSnapshots().cherrypick(staged.snapshot).commit()
    return transaction.currentMetadata().currentSnapshot()


def still_staged(metadata: Any, staged: Staged) -> None:
    """Raise `StagedGone` unless the staged snapshot is in the metadata, and ours."""
    found = jvm.link_of(metadata.snapshot(staged.snapshot))
    if found is None or found.attempt != staged.attempt:
        raise StagedGone


def there_already(metadata: Any, staged: Staged) -> bool:
    """Whether main went from the head that was staged upon straight to the staged snapshot.

    Iceberg does that by itself. When the answer of the commit that stages is lost, JdbcCatalog sends it again, takes
    the refusal for a failure, and the next attempt finds a snapshot of its own id, which it takes for a rollback to it.
    The rows are on main then, and only the position is missing. A head that main had in between would be cut off.
    """
    head = metadata.currentSnapshot()
    if head is None or head.snapshotId() != staged.snapshot:
        return False
    log = [entry.snapshotId() for entry in metadata.snapshotLog()]
    before = log[-2] if len(log) > 1 else None
    return log[-1:] == [staged.snapshot] and before == staged.parent


def _whole(state: TableState) -> bool:
    """Whether everything the position calls landed is there."""
    return state.position is None or state.ancestry.right


def write_position(session: SparkSession, table: str, stream: str, new: Position, expected: str | None) -> Position:
    """Set a stream's position without any data: the primitive of import, reset and restore.

    `snapshot` and `snapshot_seq` of `new` are replaced by main's head, which the position then stands on.

    Args:
        expected: the property as it was read, None for no position yet.

    Raises:
        PositionMoved: the table has another position than `expected`.
        Exception: the JVM's; a failed commit means that nothing was written.
    """
    transaction = jvm.load(session, table).newTransaction()
    start = transaction.startMetadata()
    if start.properties().get(position.key(stream)) != expected:
        raise PositionMoved
    head = start.currentSnapshot()
    moved = new.model_copy(
        update={
            "snapshot": head.snapshotId() if head is not None else None,
            "snapshot_seq": head.sequenceNumber() if head is not None else 0,
        }
    )
    commit(transaction, position.key(stream), moved.to_json())
    return moved


def remove_position(session: SparkSession, table: str, stream: str, expected: str) -> None:
    """Take a position out of a table: of a stream that is at its end and never comes back.

    Raises:
        PositionMoved: the table has another position than `expected`.
        Exception: the JVM's; a failed commit means that nothing was changed.
    """
    transaction = jvm.load(session, table).newTransaction()
    start = transaction.startMetadata()
    if start.properties().get(position.key(stream)) != expected:
        raise PositionMoved
    transaction.updateProperties().remove(position.key(stream)).commit()
    transaction.underlyingOps().commit(transaction.startMetadata(), transaction.currentMetadata())


def commit(transaction: Any, key: str, text: str) -> None:
    """Set a property and commit the transaction, once, on exactly the metadata it began with."""
    transaction.updateProperties().set(key, text).commit()
    failpoints.hit("before-publish")
    transaction.underlyingOps().commit(transaction.startMetadata(), transaction.currentMetadata())
    failpoints.hit("after-publish")
