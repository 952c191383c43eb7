"""Rolls main back to an earlier snapshot, with the branch `verified` and properties, in one commit."""

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

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg import fence
from lakeward.connectors.iceberg.rename import AssertProperties
from lakeward.platform.errors import Fenced
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.table import Table

MAIN = "main"


def move(table: Table, to: int, properties: Mapping[str, str | None], branches: Mapping[str, int | None]) -> None:
    """Commit the rollback on exactly the metadata that was planned with.

    A REST catalog compares refs alone. There every position moves together with main and with the tag of its stream, so
    that main and the tags are compared, and main's head becomes an empty snapshot on `to`: no ref returns to a
    snapshot that it named before (ADR 90).

    Args:
        table: as it was loaded; its head, these properties and these branches must be unchanged.
        to: the snapshot that becomes main's head.
        properties: name -> its new value; None removes it.
        branches: other branch -> its new snapshot; None removes it.

    Raises:
        Fenced: another commit came first; nothing was changed.
    """
    metadata = table.metadata
    fenced = fence.snapshot_on(table.catalog, table, to, position.streams_of(properties))
    if fenced is None:
        updates: list[Any] = [_ref(MAIN, to, table)]
        requirements: list[Any] = [
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(**{"ref": MAIN, "snapshot-id": metadata.current_snapshot_id}),
            AssertProperties(expected={name: table.properties.get(name) for name in properties}),
        ]
    else:
        updates, requirements = list(fenced.updates), list(fenced.requirements)
    for name, snapshot in branches.items():
        ref = metadata.refs.get(name)
        requirements.append(AssertRefSnapshotId(**{"ref": name, "snapshot-id": ref.snapshot_id if ref else None}))
        if snapshot is not None:
            updates.append(_ref(name, snapshot, table))
        elif ref is not None:
            updates.append(RemoveSnapshotRefUpdate(**{"ref-name": name}))
    removed = [name for name, value in properties.items() if value is None and name in table.properties]
    if removed:
        updates.append(RemovePropertiesUpdate(removals=removed))
    updates.append(
        SetPropertiesUpdate(updates={name: value for name, value in properties.items() if value is not None})
    )
    try:
        table.catalog.commit_table(table, tuple(requirements), tuple(updates))
    except CommitFailedException as error:
        raise Fenced(
            f"Table {dotted(table.name())} was not restored: another commit came first",
            why=f"{str(error).splitlines()[0]}; nothing was changed",
            next="repeat the command",
            code="LW-3093",
        ) from None


def _ref(name: str, snapshot: int, table: Table) -> SetSnapshotRefUpdate:
    ref = table.metadata.refs.get(name)
    fields = ref.model_dump(by_alias=True, exclude_none=True) if ref else {}
    return SetSnapshotRefUpdate(**{**fields, "ref-name": name, "type": "branch", "snapshot-id": snapshot})
