"""Updates of a table as changes of its metadata's JSON, where PyIceberg does not write the model: format version 3.

Only updates on which no counter of the format depends: properties, and refs on snapshots that the table has. See
docs/adr/0064.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakeward.platform.errors import Refused
from lakeward.platform.text import word
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import SetSnapshotRefUpdate, TableUpdate

WRITTEN: Final = 2
"""The newest format version whose metadata PyIceberg writes."""
MAIN: Final = "main"

_Document = dict[str, Any]


def by_document(metadata: TableMetadata, updates: Sequence[TableUpdate]) -> bool:
    """Whether these updates of a table can be made, and have to be, in its document."""
    known = all(update.action in _CHANGES and not _removes_main(update) for update in updates)
    return known and metadata.format_version > WRITTEN


def not_written(table: Table) -> Refused:
    """The error for a commit that is possible through Spark only."""
    name = dotted(table.name())
    return Refused(
        f"Table {name} was not changed: this commit to format version {table.metadata.format_version} is not possible",
        why="PyIceberg writes versions 1 and 2; JDBC and REST catalogs take properties, branches and tags of any",
        next=f"lakeward tables why {word(name)}   shows the table; Spark can write it",
        code="LW-3487",
    )


def _removes_main(update: Any) -> bool:
    return bool(update.action == "remove-snapshot-ref" and update.ref_name == MAIN)


def change(document: _Document, updates: Sequence[TableUpdate]) -> None:
    """Make the updates in the document.

    Raises:
        CommitFailedException: a ref is set on a snapshot that the table does not have.
    """
    for update in updates:
        _CHANGES[update.action](document, update)


def ref_of(update: SetSnapshotRefUpdate) -> Mapping[str, Any]:
    """A ref as the document has it."""
    fields = update.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in fields.items() if key not in ("action", "ref-name")}


def _set_properties(document: _Document, update: Any) -> None:
    document["properties"] = {**document.get("properties", {}), **update.updates}


def _remove_properties(document: _Document, update: Any) -> None:
    kept = {key: value for key, value in document.get("properties", {}).items() if key not in update.removals}
    document["properties"] = kept


def _set_ref(document: _Document, update: Any) -> None:
    from pyiceberg.exceptions import CommitFailedException

    if update.snapshot_id not in {each["snapshot-id"] for each in document.get("snapshots", [])}:
        raise CommitFailedException(f"Snapshot {update.snapshot_id} is not in the table any more")
    ref = ref_of(update)
    if document.setdefault("refs", {}).get(update.ref_name) == ref:
        return
    document["refs"][update.ref_name] = ref
    if update.ref_name == MAIN:  # its move is a line of the snapshot log, whose times never fall
        log = document.get("snapshot-log", [])
        newest = max((each["timestamp-ms"] for each in log), default=0)
        at = max(time.time_ns() // 1_000_000, newest, document["last-updated-ms"])
        document["snapshot-log"] = [*log, {"timestamp-ms": at, "snapshot-id": update.snapshot_id}]
        document["last-updated-ms"] = at
        document["current-snapshot-id"] = update.snapshot_id


def _remove_ref(document: _Document, update: Any) -> None:
    document.get("refs", {}).pop(update.ref_name, None)


_CHANGES: Final[Mapping[str, Callable[[_Document, Any], None]]] = {
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
}
