"""Rolls back a rewrite that lost or doubled rows, only if nothing was committed on top of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.tables.facts import MAIN, TableFacts

if TYPE_CHECKING:
    from pyiceberg.table import Table


def may_roll_back(before: TableFacts, after: TableFacts, ours: set[int]) -> bool:
    """Whether every snapshot on main above `before`, and every ref on them, belongs to the rewrite."""
    above = []
    for snapshot in after.main():
        if snapshot.id == before.snapshot_id:
            break
        above.append(snapshot.id)
    else:
        return False
    others = [ref.snapshot_id for name, ref in after.refs.items() if name != MAIN]
    return bool(above) and set(above) <= ours and not set(others) & set(above)


def roll_back(table: Table, head: int, to: int) -> bool:
    """Move main from `head` back to `to` by compare-and-set; False if main moved meanwhile."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

    update = SetSnapshotRefUpdate(**{"ref-name": MAIN, "type": "branch", "snapshot-id": to})
    requirement = AssertRefSnapshotId(**{"ref": MAIN, "snapshot-id": head})
    try:
        table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid), requirement), (update,))
    except CommitFailedException:
        return False
    return True
