"""An Iceberg table as a restore reads and moves it: snapshots of main, positions as properties, branch `verified`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.iceberg import paths_only, rename, rollback
from lakeward.connectors.iceberg.pyiceberg_table import link_of
from lakeward.connectors.iceberg.qualified import prefix_of
from lakeward.connectors.iceberg.source.position import snapshot_of
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.restore.restorable import MARKER, moment_text
from lakeward.platform.boundary import worded
from lakeward.platform.errors import SpecError
from lakeward.platform.text import whole_number, word
from lakeward.quality.ranges.metadata import BRANCH
from lakeward.registry import verifications
from lakeward.spec.model import iceberg_properties as parsed
from lakeward.spec.sql.names import NotAName, name_parts
from lakeward.spec.sql.statements import call_name
from lakeward.tables.context import UNREADABLE

if TYPE_CHECKING:
    from pyiceberg.table import Table


def find(context: Context, name: str) -> Table | None:
    """The table; None if the catalog does not have it.

    Raises:
        Unhealthy: its metadata cannot be read.
        DependencyDown: the catalog or the store does not answer.
    """
    catalog = sink_position.lake_of(context.runtime)
    try:
        return worded(
            f"table {name}",
            lambda: paths_only.readable(catalog, name_parts(name)),
            through=(NoSuchTableError, NotAName),
            next=UNREADABLE,
        )
    except (NoSuchTableError, NotAName):
        return None


def load(context: Context, name: str, act: str) -> Table:
    """Load the table.

    Args:
        act: what is not possible for a Delta table, in its message.

    Raises:
        SpecError: the table does not exist or is not an Iceberg table.
        Unhealthy: its metadata cannot be read.
        DependencyDown: the catalog or the store does not answer.
    """
    table = find(context, name)
    if table is None:
        raise SpecError(
            f"There is no Iceberg table {name!r}",
            why=f"the catalog does not have it; Delta tables cannot be {act} yet",
            next="lakeward tables health",
            code="LW-2063",
        )
    return table


class IcebergTable:
    """One table as it was loaded."""

    format, noun, verified_name = "iceberg", "snapshot", f"branch `{BRANCH}`"

    def __init__(self, name: str, table: Table) -> None:
        self.name, self.table = name, table

    @property
    def properties(self) -> Mapping[str, str]:
        return self.table.properties

    @property
    def head(self) -> int | None:
        return self.table.metadata.current_snapshot_id

    @property
    def history(self) -> str:
        return f"lakeward sql {word(f'FROM {call_name(self.name, prefix_of(self.table))}.history')}"

    @cached_property
    def _links(self) -> Mapping[int, Link]:
        return {snapshot.snapshot_id: link_of(snapshot) for snapshot in self.table.metadata.snapshots}

    def look_up(self, snapshot: int) -> Link | None:
        return self._links.get(snapshot)

    def moment(self, snapshot: int) -> str:
        found = self.table.metadata.snapshot_by_id(snapshot)
        return "at an unknown time" if found is None else moment_text(found.timestamp_ms)

    def records(self, snapshot: int | None) -> int:
        return whole_number(self._summary(snapshot).get("total-records")) or 0

    def effect(self, snapshot: int) -> str:
        extra = self._summary(snapshot)
        added, removed = int(extra.get("added-records", 0)), int(extra.get("deleted-records", 0))
        return f"{added:,} rows added, {removed:,} removed"

    def _summary(self, snapshot: int | None) -> dict[str, str]:
        found = self.table.metadata.snapshot_by_id(snapshot) if snapshot is not None else None
        return found.summary.additional_properties if found is not None and found.summary is not None else {}

    def check(self, to: int) -> None:
        """Every snapshot of main has its files until it expires.

        Raises:
            Refused: no commit to the table is possible.
        """
        parsed.check(self.name, self.table.properties, "restore")

    def moved(self, to: int) -> dict[str, int]:
        return {"snapshot": to, "snapshot_seq": self._links[to].seq}

    def verified(self, connection: Connection) -> int | None:
        held = self.table.metadata.refs.get(BRANCH)
        return None if held is None else held.snapshot_id

    def proven(self, connection: Connection) -> set[int]:
        return {verifications.head_of(row) for row in verifications.proofs(connection, self.name)}

    def read_up_to(self, offset: str) -> int | None:
        return snapshot_of(offset)

    def move(self, to: int, properties: Mapping[str, str | None], verified: int | None, attempt: str) -> None:
        at = self.table.metadata.refs.get(BRANCH)
        branches = {} if at is None or at.snapshot_id == verified else {BRANCH: verified}
        rollback.move(self.table, to, properties, branches)

    def forget(self, marker: str) -> None:
        rename.amend(self.table.catalog, self.name, lambda _: {MARKER: None}, {MARKER: marker})
