"""The same facts without a JVM: positions, ancestry and the position's compare-and-set through PyIceberg.

For the command line and for operations while no driver runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    ValidatableTableRequirement,
)

from lakeward.connectors.commit_protocol import ancestry, position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.check import TableState
from lakeward.platform.errors import Fenced, Refused, Transient

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_ATTEMPT, _WAP_IDS, _WAP_ENABLED = "lakeward.attempt", ("wap.id", "published-wap-id"), "write.wap.enabled"
_REDONE = 10


def positions(table: Table) -> dict[str, Position]:
    """Stream id -> position, for every stream that landed in this table.

    Raises:
        Blocked: a position cannot be read.
    """
    return position.of_properties(table.properties, _name(table))


def state_of(metadata: TableMetadata, stream: str, table: str) -> TableState:
    """All facts about one stream out of one version of a table's metadata; the twin of `java.state_of`."""
    raw = metadata.properties.get(position.key(stream))
    parsed = position.parse(raw, stream, table) if raw is not None else None
    main = metadata.refs.get("main")
    head = main.snapshot_id if main else None
    known = {each.snapshot_id: each for each in metadata.snapshots}

    def look_up(snapshot: int) -> ancestry.Link | None:
        found = known.get(snapshot)
        return None if found is None else link_of(found)

    walked = ancestry.walk(head, look_up, parsed.snapshot if parsed else None, parsed.snapshot_seq if parsed else 0)
    return TableState(
        stream=stream,
        table=table,
        staging=metadata.properties.get(_WAP_ENABLED, "").lower() == "true",
        raw=raw,
        position=parsed,
        ancestry=walked,
        newest_seq=None if walked.right else ancestry.newest_of(stream, head, look_up),
    )


def link_of(found: Snapshot) -> ancestry.Link:
    """One snapshot as a link of a chain of parents."""
    summary = found.summary
    extra = summary.additional_properties if summary else {}
    return ancestry.Link(
        snapshot=found.snapshot_id,
        seq=found.sequence_number or 0,
        parent=found.parent_snapshot_id,
        operation=summary.operation.value if summary else "append",
        attempt=extra.get(_ATTEMPT),
        wap_id=next((extra[name] for name in _WAP_IDS if extra.get(name)), None),
        added=int(extra.get("added-records") or 0),
    )


class _AssertPosition(ValidatableTableRequirement):
    """The position must still be the expected one in the metadata that is replaced."""

    type: Literal["assert-lakeward-position"] = "assert-lakeward-position"
    stream: str
    expected: str | None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as pyiceberg's own do
        found = base_metadata.properties.get(position.key(self.stream)) if base_metadata else None
        if found != self.expected:
            at = position.parse(found, self.stream, "the table") if found is not None else None
            raise Fenced(
                f"The position of stream {self.stream} moved meanwhile",
                why=f"now at seq {at.seq}, batch {at.batch} of query {at.query_id or 'none'}" if at else "it is gone",
                next=f"stop the stream first: lakeward streams stop {self.stream} --wait",
            )


def write_position(catalog: Catalog, table: str, stream: str, new: Position, expected: str | None) -> Position:
    """Set a stream's position without any data: the primitive of import, reset and restore.

    The same compare-and-set as publication: if the stream lands a batch meanwhile, this fails; and a driver that was
    cut off from the registry is fenced by it. `snapshot` and `snapshot_seq` of `new` become main's head.

    Args:
        expected: the property as it was read (`table.properties.get(position.key(stream))`), None for none.

    Raises:
        Fenced: the table has another position than `expected`.
        Refused: `seq` would fall, or the catalog is a REST one, whose commits do not compare properties.
        Transient: other writers of the table came first too often.
    """
    from pyiceberg.catalog.rest import RestCatalog

    if isinstance(catalog, RestCatalog):
        raise Refused(
            f"The position of stream {stream} cannot be set through a REST catalog from here",
            why="a REST commit compares branches, not properties: it could overwrite a batch that lands meanwhile",
            next="run the operation in a driver (lakeward.connectors.iceberg.publish.write_position)",
        )
    before = position.parse(expected, stream, table) if expected is not None else None
    if before is not None and new.seq <= before.seq:
        raise Refused(
            f"The position of stream {stream} cannot go from seq {before.seq} to {new.seq}",
            why="seq only rises, also through reset and import: a driver cut off from the registry is fenced by it",
        )
    for _ in range(_REDONE):
        loaded = catalog.load_table(table)
        main = loaded.metadata.refs.get("main")
        head = loaded.metadata.snapshot_by_id(main.snapshot_id) if main else None
        moved = new.model_copy(
            update={
                "snapshot": head.snapshot_id if head else None,
                "snapshot_seq": (head.sequence_number or 0) if head else 0,
            }
        )
        update = SetPropertiesUpdate(updates={position.key(stream): moved.to_json()})
        requirements = (
            AssertTableUUID(uuid=loaded.metadata.table_uuid),
            _AssertPosition(stream=stream, expected=expected),
        )
        try:
            catalog.commit_table(loaded, requirements, (update,))  # type: ignore[arg-type]  # a requirement of our own: SqlCatalog validates whatever it is given
        except CommitFailedException:
            continue  # another writer's commit came first; nothing was written
        return moved
    raise Transient(f"The position of stream {stream} could not be set in {table}: contention")


def remove_position(
    catalog: Catalog, table: str, stream: str, expected: str, properties: Mapping[str, str | None]
) -> None:
    """Take a position away that nothing was landed on, and put other properties back; None: remove that one too.

    Raises:
        Fenced: the table has another position than `expected`.
        Transient: other writers of the table came first too often.
    """
    gone = [position.key(stream), *(name for name, value in properties.items() if value is None)]
    back = {name: value for name, value in properties.items() if value is not None}
    for _ in range(_REDONE):
        loaded = catalog.load_table(table)
        updates = [RemovePropertiesUpdate(removals=[name for name in gone if name in loaded.properties])]
        requirements = (
            AssertTableUUID(uuid=loaded.metadata.table_uuid),
            _AssertPosition(stream=stream, expected=expected),
        )
        try:
            catalog.commit_table(loaded, requirements, (*updates, SetPropertiesUpdate(updates=back)))  # type: ignore[arg-type]  # see above
        except CommitFailedException:
            continue  # another writer's commit came first; nothing was written
        return
    raise Transient(f"The position of stream {stream} could not be removed from {table}: contention")


def _name(table: Table) -> str:
    return ".".join(table.name())
