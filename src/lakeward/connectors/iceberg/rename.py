"""Two tables change names in one transaction of the catalog's database, on exactly the metadata that was looked at.

A rename of the catalog's own is one statement a table: between two of them there is no table under the name, and a
stream that starts just then would make an empty one. JdbcCatalog keeps a row a table; here both rows are changed, or
neither, and only if both still name the metadata that was verified: whoever commits to either of them in between,
maintenance or a driver that was thought stopped, makes it fail, and nothing has changed.
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

from lakeward.platform.errors import DependencyDown, Fenced, Refused, Transient, expect_type
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from sqlalchemy import Update

_REDONE = 10
Change = Callable[["Table"], Mapping[str, str | None]]
"""A table as it is now -> the properties to set, or to remove where None."""


class Moved(Exception):
    """One of the tables has other metadata than what was looked at; nothing was changed."""


def swappable(catalog: Catalog, stream: str) -> None:
    """Whether two names can be changed at once here.

    Raises:
        Refused: it is not the JDBC catalog.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    if not isinstance(catalog, SqlCatalog):
        raise Refused(
            f"Stream {stream} cannot be rebuilt: the catalog renames one table at a time",
            why="between two renames there is no table under the name; both at once are done in a JDBC catalog, "
            "not yet in others",
            next=f"lakeward streams backfill {stream} --from earliest --into NAMESPACE.TABLE   fills a table beside",
            code="LW-3084",
        )


def swap(catalog: Catalog, live: Table, made: Table, before: str) -> None:
    """`live` takes the name `before`, and `made` the name of `live`; both or neither.

    Args:
        live, made: as they were loaded and looked at.
        before: `namespace.table`, of the same catalog; nothing has this name.

    Raises:
        Moved: one of them was committed to since.
        Refused: something is called `before` by now.
        DependencyDown: the catalog's database does not answer, and whether it was done could not be asked.
    """
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import IntegrityError, OperationalError
    from sqlalchemy.orm import Session

    catalog = expect_type(catalog, SqlCatalog, "the catalog")
    name = ".".join(live.name())
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
            next="try again",
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
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import update

    *namespace, name = table.name()
    *new_namespace, new_name = new.split(".")
    return (
        update(IcebergTables)
        .where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == ".".join(namespace),
            IcebergTables.table_name == name,
            IcebergTables.metadata_location == table.metadata_location,
        )
        .values(table_namespace=".".join(new_namespace), table_name=new_name)
    )


def _is_now(catalog: Catalog, name: str, made: Table) -> bool:
    """Whether the answer was lost, and not the transaction."""
    from sqlalchemy.exc import OperationalError

    try:
        return bool(catalog.load_table(name).metadata.table_uuid == made.metadata.table_uuid)
    except OperationalError:
        return False


class AssertProperties(ValidatableTableRequirement):
    """These properties must still be as they were read, in the metadata that is replaced."""

    type: Literal["assert-lakeward-properties"] = "assert-lakeward-properties"
    expected: dict[str, str | None]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as pyiceberg's own do
        found = base_metadata.properties if base_metadata else {}
        moved = sorted(name for name, value in self.expected.items() if found.get(name) != value)
        if moved:
            raise Fenced(
                f"{', '.join(moved)} changed meanwhile",
                why="somebody else works on the same table; nothing was changed",
                next="try again",
                code="LW-3087",
            )


def amend(catalog: Catalog, table: str, change: Change, expected: Mapping[str, str | None]) -> Table:
    """Change properties of a table in one commit; the table as it is then.

    Args:
        expected: properties as they were read, None for one that is not there; if they are others now, it fails.

    Raises:
        Fenced: one of `expected` is not so any more.
        Transient: other writers of the table came first too often.
    """
    for _ in range(_REDONE):
        loaded = catalog.load_table(table)
        wanted = change(loaded)
        gone = [name for name, value in wanted.items() if value is None and name in loaded.properties]
        updates = (
            *([RemovePropertiesUpdate(removals=gone)] if gone else []),
            SetPropertiesUpdate(updates={name: value for name, value in wanted.items() if value is not None}),
        )
        requirements = (
            AssertTableUUID(uuid=loaded.metadata.table_uuid),
            AssertProperties(expected=dict(expected)),
        )
        try:
            catalog.commit_table(loaded, requirements, updates)  # type: ignore[arg-type]  # a requirement of our own: SqlCatalog validates whatever it is given
        except CommitFailedException:
            continue  # another writer's commit came first; nothing was written
        return catalog.load_table(table)
    raise Transient(f"The properties of {table} could not be changed: contention", code="LW-3083")
