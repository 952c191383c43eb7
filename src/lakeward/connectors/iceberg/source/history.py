"""What a table's metadata says of its commits, without a JVM: what there is to read, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import CATALOG, Runtime

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True)
class Commit:
    """One snapshot of main.

    Attributes:
        snapshot, parent: ids; `parent` is None for a table's first one.
        at: when it was committed.
        operation: `append`, `replace`, `overwrite` or `delete`.
        files, rows: data files and rows it added.
        removed: rows it took away.
        total: rows in the table after it; None where its writer did not say.
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
    """Main's commits that are left, newest first.

    Attributes:
        table, uuid: its name, and its own id: a table made again under the name has another one.
        main: the commits.
        others: snapshots that are not on main -> when they were committed.
    """

    table: str
    uuid: str
    main: tuple[Commit, ...] = ()
    others: Mapping[int, datetime] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the first commit of main is still there."""
        return not self.main or self.main[-1].parent is None

    @property
    def before(self) -> int | None:
        """Rows that stood in the table before the oldest commit that is left; None where nobody says."""
        oldest = self.main[-1]
        return None if oldest.total is None else max(0, oldest.total - oldest.rows + oldest.removed)

    def at(self, snapshot: int) -> Commit | None:
        """A commit of main by its snapshot."""
        return next((each for each in self.main if each.snapshot == snapshot), None)

    def after(self, at: Offset) -> list[Commit] | None:
        """The commits behind a position, oldest first, its own not included; None if it is not on main."""
        if at.snapshot is None:
            return list(reversed(self.main))
        found: list[Commit] = []
        for each in self.main:
            if each.snapshot == at.snapshot:
                return list(reversed(found))
            found.append(each)
        return None

    def waiting(self, at: Offset) -> tuple[int, datetime | None]:
        """(rows that wait behind a position, when the first of them were committed); of a commit that is taken in part
        by its share of files."""
        own = None if at.snapshot is None else self.at(at.snapshot)
        rest = 0 if own is None or own.operation != "append" or not own.files else max(0, own.files - at.files)
        rows = 0 if own is None or not rest else -(-own.rows * rest // own.files)
        since = own.at if own is not None and rows else None
        for each in self.after(at) or ():
            if each.operation == "append" and each.rows:
                rows, since = rows + each.rows, since or each.at
        return rows, since


def read(runtime: Runtime, table: str) -> History | None:
    """A table's history; None where there is no table of this name.

    Raises:
        DependencyDown: the catalog does not answer.
    """
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import OperationalError

    try:
        lake = load_catalog(CATALOG, **pyiceberg_properties(runtime.lake, runtime.pgpass))
        try:
            return of(table, lake.load_table(table).metadata)
        finally:
            lake.close()
    except NoSuchTableError:
        return None
    except OperationalError as error:
        raise DependencyDown(
            f"The catalog does not answer for table {table}",
            why=str(error.orig).strip().splitlines()[0] if error.orig else "no answer",
            next="lakeward stack status   (the stream goes on by itself when the catalog is back)",
            code="LW-3100",
        ) from None


def of(table: str, metadata: TableMetadata) -> History:
    """A history out of one version of the metadata."""
    known = {each.snapshot_id: each for each in metadata.snapshots}
    ref = metadata.refs.get("main")
    main: list[Commit] = []
    current = None if ref is None else known.get(ref.snapshot_id)
    while current is not None:
        main.append(_commit(current))
        current = known.get(current.parent_snapshot_id) if current.parent_snapshot_id is not None else None
    on_main = {each.snapshot for each in main}
    others = {each.snapshot_id: _when(each) for each in metadata.snapshots if each.snapshot_id not in on_main}
    return History(table, str(metadata.table_uuid), tuple(main), others)


def _when(snapshot: Any) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _commit(snapshot: Any) -> Commit:
    summary = snapshot.summary
    said: Mapping[str, str] = summary.additional_properties if summary else {}
    total = said.get("total-records")
    return Commit(
        snapshot=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        at=_when(snapshot),
        operation=summary.operation.value if summary else "append",
        files=int(said.get("added-data-files") or 0),
        rows=int(said.get("added-records") or 0),
        removed=int(said.get("deleted-records") or 0),
        total=None if total is None else int(total),
    )
