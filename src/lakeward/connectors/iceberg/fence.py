"""The fence of a stream in a catalog that compares refs only: a tag which moves in every commit of the stream.

A commit to a JDBC, Hive or Glue catalog compares the location of the whole metadata. A commit to a REST catalog sends
requirements for what it changes: the table's uuid and the refs that move. It accepts properties from a stale base, and
after a rollback of main a batch from before it. So every commit that changes a position also moves the tag
`lakeward.stream.<id>` to a snapshot that it never named before. The requirement for the tag refuses every other base.
ADR 90.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.connectors.iceberg.document_updates import not_written
from lakeward.platform.errors import expect

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update import TableRequirement, TableUpdate

_PREFIX: Final = "lakeward.stream."
_MAIN: Final = "main"
_FOR_EVER_MS: Final = 2**63 - 1
_COMPARE_METADATA: Final = ("JdbcTableOperations", "HiveTableOperations", "GlueTableOperations")
"""Iceberg's classes whose commit compares the location of the metadata that it replaces."""


def tag_of(stream: str) -> str:
    """The name of the stream's tag."""
    return _PREFIX + stream


def tags_of(table: Table) -> list[str]:
    """The tags of the streams that have a position in a table, sorted; none where the catalog compares metadata."""
    return [tag for tag in map(tag_of, position.streams_of(table.properties)) if tag in table.metadata.refs]


def move_tags(transaction: Transaction, tags: Sequence[str]) -> None:
    """Move tags to main's head in a transaction of PyIceberg that added it."""
    from pyiceberg.table.update.snapshot import ManageSnapshots

    head = expect(transaction.table_metadata.current_snapshot_id, "main's head")
    for tag in tags:
        ManageSnapshots(transaction).create_tag(head, tag, _FOR_EVER_MS).commit()


def move_tag(transaction: Any, stream: str) -> Any:
    """Move the stream's tag to main's head, in a transaction that changes the stream's position.

    Does nothing where the catalog compares metadata. The tag never returns to an older snapshot: if the transaction did
    not move main, an empty snapshot is added.

    Args:
        transaction: Iceberg's, with all its changes of snapshots.

    Returns:
        Main's head, a Java snapshot; None in an empty table of a catalog that compares metadata.
    """
    start, head = transaction.startMetadata(), transaction.currentMetadata().currentSnapshot()
    if transaction.underlyingOps().getClass().getSimpleName() in _COMPARE_METADATA:
        return head
    before = start.currentSnapshot()
    if head is None or (before is not None and before.snapshotId() == head.snapshotId()):
        transaction.newFastAppend().commit()
        head = transaction.currentMetadata().currentSnapshot()
    tag, change = tag_of(stream), transaction.manageSnapshots()
    if start.ref(tag) is None:
        change.createTag(tag, head.snapshotId()).setMaxRefAgeMs(tag, _FOR_EVER_MS)
    else:
        change.replaceTag(tag, head.snapshotId())
    change.commit()
    return head


def drop_tag(table: Any, stream: str) -> None:
    """Remove the tag of a stream that has no position any more.

    Args:
        table: a table object of Java, loaded after the position was removed.
    """
    tag = tag_of(stream)
    if table.refs().containsKey(tag):
        table.manageSnapshots().removeTag(tag).commit()


@dataclass(frozen=True)
class EmptySnapshot:
    """A commit of an empty snapshot as main's head, with the tags of streams on it.

    Attributes:
        snapshot, seq: its id and sequence number.
    """

    snapshot: int
    seq: int
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


def empty_snapshot(catalog: Catalog, table: Table, stream: str) -> EmptySnapshot | None:
    """What a commit of the stream's position through PyIceberg must contain; None if the catalog compares metadata.

    Args:
        table: as it was loaded.
    """
    return snapshot_on(catalog, table, table.metadata.current_snapshot_id, [stream])


def snapshot_on(catalog: Catalog, table: Table, parent: int | None, streams: Sequence[str]) -> EmptySnapshot | None:
    """`empty_snapshot` of several streams, on a snapshot that need not be main's head: main goes back to it.

    Args:
        table: as it was loaded.
        parent: the snapshot; None for none.
    """
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.table.update import (
        AssertRefSnapshotId,
        AssertTableUUID,
        SetSnapshotRefUpdate,
        update_table_metadata,
    )

    if not isinstance(own(catalog, table.name()), RestCatalog):
        return None
    metadata, base = table.metadata, table
    if parent is not None and parent != metadata.current_snapshot_id:
        back = SetSnapshotRefUpdate(**{"ref-name": _MAIN, "type": "branch", "snapshot-id": parent})
        at = update_table_metadata(metadata, (back,))
        base = type(table)(table.name(), at, table.metadata_location, table.io, table.catalog)
    try:
        append = base.transaction().update_snapshot().fast_append()
        updates, _ = append._commit()
    except NotImplementedError as error:
        raise not_written(table) from error
    tags = {tag: metadata.refs.get(tag) for tag in map(tag_of, streams)}
    known = {_MAIN: metadata.refs.get(_MAIN), **tags}
    unmoved = [
        AssertRefSnapshotId(**{"ref": name, "snapshot-id": ref.snapshot_id if ref else None})
        for name, ref in known.items()
    ]
    moved = {"type": "tag", "snapshot-id": append.snapshot_id, "max-ref-age-ms": _FOR_EVER_MS}
    return EmptySnapshot(
        append.snapshot_id,
        metadata.next_sequence_number(),
        (AssertTableUUID(uuid=metadata.table_uuid), *unmoved),
        (*updates, *(SetSnapshotRefUpdate(**{"ref-name": tag, **moved}) for tag in tags)),
    )
