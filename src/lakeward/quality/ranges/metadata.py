"""Reads a table's snapshot history from its metadata, without Spark: one catalog request and one JSON file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg import paths_only
from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import instant
from lakeward.quality.ranges.snapshot_chain import History, Snapshot
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

BRANCH = "verified"


class NoTable(LakewardError):
    """Raised when the table is not in the catalog."""


def no_table(table: str) -> NoTable:
    """The error about this table, to raise."""
    return NoTable(
        f"Table {table} does not exist",
        why="It is not in the catalog of the lake.",
        next="lakeward tables health",
        code="LW-5010",
    )


def catalog(runtime: Runtime) -> Catalog:
    """The catalog of the lake in PyIceberg.

    Raises:
        DependencyDown: the catalog does not answer.
    """
    with _answering():
        return load_lake(runtime.lake, runtime.pgpass)


def history(lake: Catalog, table: str) -> History:
    """The snapshots, main's head and the branch `verified` of a table, as they are now.

    Raises:
        NoTable: the table does not exist.
        DependencyDown: the catalog does not answer.
    """
    return history_of(table, load(lake, table))


def load(lake: Catalog, table: str) -> Table:
    """The table as it is now.

    Raises:
        NoTable: the table does not exist.
        DependencyDown: the catalog does not answer.
        Unhealthy: a column has a type that PyIceberg cannot read.
    """
    from pyiceberg.exceptions import NoSuchTableError

    try:
        with _answering():
            return paths_only.readable(lake, name_parts(table))
    except NoSuchTableError:
        raise no_table(table) from None


def history_of(table: str, loaded: Table) -> History:
    """The history of a loaded table."""
    metadata = loaded.metadata
    branch = metadata.refs.get(BRANCH)
    return History(
        table=table,
        head=metadata.current_snapshot_id,
        verified=branch.snapshot_id if branch is not None else None,
        snapshots={snapshot.snapshot_id: _snapshot(snapshot) for snapshot in metadata.snapshots},
        refs=frozenset(metadata.refs),
    )


@contextmanager
def _answering() -> Iterator[None]:
    from sqlalchemy.exc import OperationalError

    try:
        yield
    except OperationalError as error:
        raise DependencyDown(
            "The catalog does not answer",
            why=str(error.orig).strip().splitlines()[0] if error.orig else "no answer",
            next="lakeward stack status",
            code="LW-5011",
        ) from error


def _snapshot(found: Any) -> Snapshot:
    summary = found.summary
    facts: dict[str, str] = dict(summary.additional_properties) if summary is not None else {}
    total, deletes = facts.get("total-records"), facts.get("total-delete-files")
    return Snapshot(
        id=found.snapshot_id,
        parent=found.parent_snapshot_id,
        sequence=found.sequence_number or None,
        at=instant(found.timestamp_ms),
        # Without a stated operation the commit may have rewritten rows.
        operation=summary.operation.value if summary is not None else "overwrite",
        added=int(facts.get("added-records", 0)),
        total=int(total) if total is not None else None,
        delete_files=int(deletes) if deletes is not None else None,
        wap_id=facts.get("published-wap-id") or facts.get("wap.id"),
        traced=found.first_row_id is not None,
    )
