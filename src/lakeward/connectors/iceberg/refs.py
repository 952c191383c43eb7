"""Sets branches and tags of a table in one commit, if its requirements still hold.

PyIceberg reads the metadata of format version 3 but does not write it: its model has no encryption keys, and writing a
model would drop unknown fields. In a JDBC catalog the JSON of the metadata file is changed instead, and every value
except the refs stays the same. REST catalogs accept the change as a request for every format version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.connectors.iceberg.document_updates import MAIN, WRITTEN, change
from lakeward.connectors.iceberg.metadata_document import commit_document
from lakeward.platform.errors import Internal
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import SetSnapshotRefUpdate, TableRequirement


def settable(catalog: Catalog, table: Table) -> bool:
    """Whether `set_refs` supports the catalog and the format version of the table."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    return table.metadata.format_version <= WRITTEN or isinstance(own(catalog, table.name()), RestCatalog | SqlCatalog)


def set_refs(
    catalog: Catalog, table: Table, requirements: Sequence[TableRequirement], refs: Sequence[SetSnapshotRefUpdate]
) -> None:
    """Set refs other than main.

    Args:
        catalog: must be `settable`.
        table: as it was loaded.
        requirements: what must hold in the metadata that is replaced.

    Raises:
        CommitFailedException: a requirement does not hold, or another commit came first; nothing was changed.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    if any(ref.ref_name == MAIN for ref in refs):
        raise Internal(
            f"Branch {MAIN} of {dotted(table.name())} cannot be moved by its ref alone",
            why="the snapshot log must move together with it",
            code="LW-3081",
        )
    kind = own(catalog, table.name())
    if table.metadata.format_version > WRITTEN and isinstance(kind, SqlCatalog):
        after = commit_document(kind, table, requirements, lambda document: change(document, refs))
    else:
        after = catalog.commit_table(table, tuple(requirements), tuple(refs)).metadata
    # Iceberg does this after each of its own commits, if the table's properties enable it.
    kind._delete_old_metadata(table.io, table.metadata, after)
