"""Take main back to an earlier snapshot, with the branch `verified` and properties, in one commit or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from lakeward.connectors.iceberg.rename import AssertProperties
from lakeward.platform.errors import Fenced, Refused

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

MAIN = "main"


def movable(catalog: Catalog, table: str) -> None:
    """Whether the position can be compared in the commit that takes the table back.

    Raises:
        Refused: it is a REST catalog.
    """
    from pyiceberg.catalog.rest import RestCatalog

    if isinstance(catalog, RestCatalog):
        raise Refused(
            f"Table {table} cannot be restored through a REST catalog from here",
            why="a REST commit compares branches, not properties: it could overwrite a batch that lands meanwhile",
            next="restore it where the catalog is JDBC",
            code="LW-3092",
        )


def move(table: Table, to: int, properties: Mapping[str, str | None], branches: Mapping[str, int | None]) -> None:
    """Commit it on exactly the metadata that was looked at.

    Args:
        table: as it was loaded; its head, these properties and these branches must still be so.
        to: the snapshot that becomes main's head.
        properties: name -> its new value; None: it goes.
        branches: other branch -> its new snapshot; None: it goes.

    Raises:
        Fenced: somebody committed to it meanwhile; nothing was changed.
    """
    metadata = table.metadata
    updates: list[Any] = [_ref(MAIN, to, table)]
    requirements: list[Any] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(**{"ref": MAIN, "snapshot-id": metadata.current_snapshot_id}),
        AssertProperties(expected={name: table.properties.get(name) for name in properties}),
    ]
    for name, snapshot in branches.items():
        held = metadata.refs.get(name)
        requirements.append(AssertRefSnapshotId(**{"ref": name, "snapshot-id": held.snapshot_id if held else None}))
        if snapshot is not None:
            updates.append(_ref(name, snapshot, table))
        elif held is not None:
            updates.append(RemoveSnapshotRefUpdate(**{"ref-name": name}))
    gone = [name for name, value in properties.items() if value is None and name in table.properties]
    if gone:
        updates.append(RemovePropertiesUpdate(removals=gone))
    updates.append(
        SetPropertiesUpdate(updates={name: value for name, value in properties.items() if value is not None})
    )
    try:
        table.catalog.commit_table(table, tuple(requirements), tuple(updates))
    except CommitFailedException as error:
        raise Fenced(
            f"Table {'.'.join(table.name())} was not restored: somebody committed to it meanwhile",
            why=f"{str(error).splitlines()[0]}; nothing was changed",
            next="the same command again",
            code="LW-3093",
        ) from None


def _ref(name: str, snapshot: int, table: Table) -> SetSnapshotRefUpdate:
    held = table.metadata.refs.get(name)
    kept = held.model_dump(by_alias=True, exclude_none=True) if held else {}
    return SetSnapshotRefUpdate(**{**kept, "ref-name": name, "type": "branch", "snapshot-id": snapshot})
