"""Removes snapshots and refs from a table's metadata in one commit, and deletes no file.

Iceberg keeps the parent of a snapshot whose parent expired: the walk from main's head tells an expired history from a
replaced table by it (`commit_protocol.ancestry`). PyIceberg clears it, so in a JDBC catalog the JSON of the metadata
file is changed, and in other catalogs the same change is made on PyIceberg's model. A REST catalog applies the request
by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.connectors.iceberg.document_updates import WRITTEN
from lakeward.connectors.iceberg.metadata_document import commit_document
from lakeward.platform.errors import Refused
from lakeward.platform.text import word
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


def expire_snapshots(catalog: Catalog, table: Table, snapshots: Collection[int], refs: Collection[str]) -> None:
    """Remove them in one commit.

    Args:
        catalog: of the table.
        table: as it was loaded; every one of its refs must still name the same snapshot.
        snapshots: ids; no remaining ref names one of them.
        refs: names of branches and tags.

    Raises:
        CommitFailedException: another commit came first; nothing was changed.
        Refused: the catalog cannot change a table of this format version.
    """
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table.update import (
        AssertRefSnapshotId,
        AssertTableUUID,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
    )

    metadata, kind = table.metadata, own(catalog, table.name())
    required: list[Any] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        *(AssertRefSnapshotId(**{"ref": name, "snapshot-id": ref.snapshot_id}) for name, ref in metadata.refs.items()),
    ]
    if isinstance(kind, SqlCatalog):
        after = commit_document(kind, table, required, lambda document: _change(document, set(snapshots), set(refs)))
        kind._delete_old_metadata(table.io, metadata, after)
        return
    dropped: list[Any] = [RemoveSnapshotRefUpdate(**{"ref-name": name}) for name in sorted(refs)]
    if isinstance(kind, RestCatalog):
        going: Any = RemoveSnapshotsUpdate(**{"snapshot-ids": sorted(snapshots)})
    elif metadata.format_version <= WRITTEN:
        going = _keeping_parents()(**{"snapshot-ids": sorted(snapshots)})
    else:
        raise Refused(
            f"Cannot expire snapshots of {dotted(table.name())}",
            why=f"Its format version is {metadata.format_version}, which is supported in JDBC and REST catalogs.",
            next=f"lakeward tables policy {word(dotted(table.name()))}   shows its policy: set expire.enabled to false",
            code="LW-3275",
        )
    catalog.commit_table(table, tuple(required), (*dropped, *([going] if snapshots else [])))


def lost_refs(catalog: Catalog, before: Table, after: Table) -> dict[str, int]:
    """Branches and tags that an expiry removed though it did not know them: name -> snapshot.

    A REST catalog compares only the refs that the request names. A ref that another process sets between the load and
    the commit, on a snapshot that goes, goes with it. The metadata files between the two versions show it.

    Args:
        before: as it was loaded for the commit.
        after: as it was loaded after the commit.
    """
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.serializers import FromInputFile

    if isinstance(own(catalog, after.name()), SqlCatalog):
        return {}  # the commit compared all metadata
    log = [entry.metadata_file for entry in after.metadata.metadata_log]
    since = log.index(before.metadata_location) + 1 if before.metadata_location in log else len(log)
    there = {each.snapshot_id for each in after.metadata.snapshots}
    lost: dict[str, int] = {}
    for file in log[since:]:
        refs = FromInputFile.table_metadata(after.io.new_input(file)).refs
        lost |= {name: ref.snapshot_id for name, ref in refs.items() if name not in before.metadata.refs}
    return {name: of for name, of in lost.items() if of not in there and name not in after.metadata.refs}


def _change(document: dict[str, Any], snapshots: set[int], refs: set[str]) -> None:
    """The change of Iceberg's own expiry."""
    document["refs"] = {name: ref for name, ref in document.get("refs", {}).items() if name not in refs}
    document["snapshots"] = [each for each in document["snapshots"] if each["snapshot-id"] not in snapshots]
    for kind in ("statistics", "partition-statistics"):
        if kind in document:
            document[kind] = [each for each in document[kind] if each["snapshot-id"] not in snapshots]
    document["snapshot-log"] = _trimmed(document.get("snapshot-log", []), snapshots, lambda each: each["snapshot-id"])


def _trimmed(log: list[Any], snapshots: set[int], snapshot_of: Any) -> list[Any]:
    """The snapshot log after its newest removed entry: Iceberg keeps no history with holes."""
    last = max((at for at, each in enumerate(log) if snapshot_of(each) in snapshots), default=-1)
    return log[last + 1 :]


def _keeping_parents() -> Any:
    """PyIceberg's update, which leaves the parents of the remaining snapshots as they are."""
    from pyiceberg.table.update import RemoveSnapshotsUpdate, _apply_table_update

    class KeepingParents(RemoveSnapshotsUpdate):
        pass

    @_apply_table_update.register(KeepingParents)
    def _(update: KeepingParents, base_metadata: TableMetadata, context: Any) -> TableMetadata:
        gone = set(update.snapshot_ids)
        context.add_update(update)
        return base_metadata.model_copy(
            update={
                "snapshots": [each for each in base_metadata.snapshots if each.snapshot_id not in gone],
                "snapshot_log": _trimmed(base_metadata.snapshot_log, gone, lambda each: each.snapshot_id),
                "statistics": [each for each in base_metadata.statistics if each.snapshot_id not in gone],
                "partition_statistics": [
                    each for each in base_metadata.partition_statistics if each.snapshot_id not in gone
                ],
            }
        )

    return KeepingParents
