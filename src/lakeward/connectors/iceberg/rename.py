"""Renames two tables in one transaction of the catalog's database, if both still have the verified metadata.

The catalog's own rename is one statement per table: between two renames no table has the name, and a stream that starts
then would create an empty one. JdbcCatalog stores one row per table. Here both rows change or neither, and only if both
still name the verified metadata: any commit to one of the tables in between (maintenance, or a driver that was believed
stopped) makes the swap fail without a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    ValidatableTableRequirement,
)

from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.connectors.iceberg.metadata_document import update_if_unchanged
from lakeward.platform.errors import DependencyDown, Fenced, Refused, Transient, expect_type
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from sqlalchemy import Update

_ATTEMPTS = 10
Change = Callable[["Table"], Mapping[str, str | None]]
"""A loaded table -> the properties to set, or to remove where None."""


class Moved(Exception):
    """Raised when one of the tables no longer has the verified metadata; nothing was changed."""


def swappable(catalog: Catalog, stream: str) -> None:
    """Check that the catalog can rename two tables in one transaction.

    Raises:
        Refused: it is not a JDBC catalog.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    if not isinstance(catalog, SqlCatalog):
        raise Refused(
            f"Stream {stream} cannot be rebuilt: the catalog renames one table at a time",
            why="between two renames no table has the name; only a JDBC catalog renames both in one transaction",
            next=f"lakeward streams backfill {stream} --from earliest --into NAMESPACE.TABLE --dry-run   "
            "fills another table",
            code="LW-3084",
        )


def swap(catalog: Catalog, live: Table, made: Table, before: str) -> None:
    """Rename `live` to `before`, and `made` to the name of `live`, in one transaction.

    Args:
        live, made: as they were loaded and verified.
        before: an unused `namespace.table` of the same catalog.

    Raises:
        Moved: one of the tables has a newer commit.
        Refused: a table named `before` exists now.
        DependencyDown: the catalog's database does not answer, and the result is unknown.
    """
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import IntegrityError, OperationalError
    from sqlalchemy.orm import Session

    catalog = expect_type(catalog, SqlCatalog, "the catalog")
    name = dotted(live.name())
    try:
        with Session(catalog.engine) as session, session.begin():
            for table, new in ((live, before), (made, name)):
                if session.execute(_renamed(catalog, table, new)).rowcount != 1:  # type: ignore[attr-defined]  # of an UPDATE
                    raise Moved
                failpoints.hit("rebuild-between-renames")
    except IntegrityError:
        raise Refused(
            f"Table {before} exists",
            why=f"{name} would have taken this name; nothing was changed",
            next="repeat the command",
            code="LW-3085",
        ) from None
    except OperationalError as error:
        if _is_now(catalog, name, made):
            return
        raise DependencyDown(
            "The catalog does not answer",
            why=str(error.orig).strip().splitlines()[0],
            next="lakeward stack status",
            code="LW-3086",
        ) from None


def _renamed(catalog: Catalog, table: Table, new: str) -> Update:
    *new_namespace, new_name = name_parts(new)
    return update_if_unchanged(catalog, table, table_namespace=".".join(new_namespace), table_name=new_name)


def _is_now(catalog: Catalog, name: str, made: Table) -> bool:
    """Whether the transaction committed, and only its answer was lost."""
    from sqlalchemy.exc import OperationalError

    try:
        return bool(catalog.load_table(name_parts(name)).metadata.table_uuid == made.metadata.table_uuid)
    except OperationalError:
        return False


class AssertProperties(ValidatableTableRequirement):
    """The replaced metadata must still have these properties as they were read."""

    type: Literal["assert-lakeward-properties"] = "assert-lakeward-properties"
    expected: dict[str, str | None]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as pyiceberg's own do
        properties = base_metadata.properties if base_metadata else {}
        changed = sorted(name for name, value in self.expected.items() if properties.get(name) != value)
        if changed:
            raise Fenced(
                f"The table's properties changed: {', '.join(changed)}",
                why="another writer committed to the table first; this operation changed nothing",
                next="repeat the command",
                code="LW-3087",
            )


def amend(catalog: Catalog, table: str, change: Change, expected: Mapping[str, str | None]) -> Table:
    """Change properties of a table in one commit; returns the table after it.

    Args:
        expected: properties as they were read, None for an absent one; they must not have changed.

    Raises:
        Fenced: one of `expected` has changed.
        Transient: other writers committed first at every attempt.
    """
    from pyiceberg.catalog.rest import RestCatalog

    for _ in range(_ATTEMPTS):
        loaded = catalog.load_table(name_parts(table))
        changes = change(loaded)
        removed = [name for name, value in changes.items() if value is None and name in loaded.properties]
        updates = (
            *([RemovePropertiesUpdate(removals=removed)] if removed else []),
            SetPropertiesUpdate(updates={name: value for name, value in changes.items() if value is not None}),
        )
        unchanged = AssertProperties(expected=dict(expected))
        unchanged.validate(loaded.metadata)
        uuid = AssertTableUUID(uuid=loaded.metadata.table_uuid)
        # A REST catalog knows no such requirement. What is changed here is no position, and is changed under a lease.
        requirements = (uuid,) if isinstance(own(catalog, loaded.name()), RestCatalog) else (uuid, unchanged)
        try:
            catalog.commit_table(loaded, requirements, updates)  # type: ignore[arg-type]  # a requirement of our own: SqlCatalog validates whatever it is given
        except CommitFailedException:
            continue  # another writer's commit came first; nothing was written
        return catalog.load_table(name_parts(table))
    raise Transient(
        f"The properties of {table} were not changed: contention",
        why=f"other writers committed first in each of {_ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3083",
    )
