"""The commit history of an Iceberg table from its metadata, without a JVM: what a source has to read, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import instant
from lakeward.spec.sql.catalogs import prefix_in
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True)
class Commit:
    """One snapshot of main.

    Attributes:
        snapshot, parent: ids; `parent` is None for a table's first snapshot.
        at: when it was committed.
        operation: `append`, `replace`, `overwrite` or `delete`.
        files, rows: data files and rows it added.
        removed: rows it removed.
        total: rows in the table after it; None if its writer did not record it.
    """

    snapshot: int
    parent: int | None
    at: datetime
    operation: str
    files: int = 0
    rows: int = 0
    removed: int = 0
    total: int | None = None


@dataclass(frozen=True)
class History:
    """Main's remaining commits, newest first.

    Attributes:
        table, uuid: its name and id; a recreated table of the same name has another id.
        catalog: `catalogs.prefix_in` of the table, for commands.
        main: the commits.
        others: snapshots that are not on main -> when they were committed.
    """

    table: str
    uuid: str
    catalog: str
    main: tuple[Commit, ...] = ()
    others: Mapping[int, datetime] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether main still has its first commit."""
        return not self.main or self.main[-1].parent is None

    @property
    def before(self) -> int | None:
        """Rows in the table before the oldest remaining commit; None if unknown."""
        oldest = self.main[-1]
        return None if oldest.total is None else max(0, oldest.total - oldest.rows + oldest.removed)

    def at(self, snapshot: int) -> Commit | None:
        """A commit of main by its snapshot; None if main does not have it."""
        return next((commit for commit in self.main if commit.snapshot == snapshot), None)

    def after(self, at: Offset) -> list[Commit] | None:
        """The commits after a position, oldest first, without its own; None if the position is not on main."""
        if at.snapshot is None:
            return list(reversed(self.main))
        newer: list[Commit] = []
        for commit in self.main:
            if commit.snapshot == at.snapshot:
                return list(reversed(newer))
            newer.append(commit)
        return None

    def waiting(self, at: Offset) -> tuple[int, datetime | None]:
        """(rows after a position, when the first of them were committed); a partly read commit counts by its share of
        files."""
        own = None if at.snapshot is None else self.at(at.snapshot)
        rest = 0 if own is None or own.operation != "append" or not own.files else max(0, own.files - at.files)
        rows = 0 if own is None or not rest else -(-own.rows * rest // own.files)
        since = own.at if own is not None and rows else None
        for commit in self.after(at) or ():
            if commit.operation == "append" and commit.rows:
                rows, since = rows + commit.rows, since or commit.at
        return rows, since


def read(runtime: Runtime, table: str) -> History | None:
    """A table's history; None if the table does not exist.

    Raises:
        DependencyDown: the catalog does not answer.
    """
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import OperationalError

    try:
        lake = load_lake(runtime.lake, runtime.pgpass)
        try:
            return of(table, lake.load_table(name_parts(table)).metadata, prefix_in(runtime.lake, table))
        finally:
            lake.close()
    except NoSuchTableError:
        return None
    except OperationalError as error:
        raise DependencyDown(
            f"The catalog does not answer for table {table}",
            why=str(error.orig).strip().splitlines()[0] if error.orig else "no answer",
            next="lakeward stack status   (the stream continues by itself when the catalog is back)",
            code="LW-3100",
        ) from None


def of(table: str, metadata: TableMetadata, catalog: str) -> History:
    """The history from one version of the metadata."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    ref = metadata.refs.get("main")
    main: list[Commit] = []
    current = None if ref is None else known.get(ref.snapshot_id)
    while current is not None:
        main.append(_commit(current))
        current = known.get(current.parent_snapshot_id) if current.parent_snapshot_id is not None else None
    on_main = {commit.snapshot for commit in main}
    others = {other.snapshot_id: _when(other) for other in metadata.snapshots if other.snapshot_id not in on_main}
    return History(table, str(metadata.table_uuid), catalog, tuple(main), others)


def _when(snapshot: Any) -> datetime:
    return instant(snapshot.timestamp_ms)


def _commit(snapshot: Any) -> Commit:
    summary = snapshot.summary
    counts: Mapping[str, str] = summary.additional_properties if summary else {}
    total = counts.get("total-records")
    return Commit(
        snapshot=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        at=_when(snapshot),
        operation=summary.operation.value if summary else "append",
        files=int(counts.get("added-data-files") or 0),
        rows=int(counts.get("added-records") or 0),
        removed=int(counts.get("deleted-records") or 0),
        total=None if total is None else int(total),
    )
