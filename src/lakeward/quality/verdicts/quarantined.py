"""Describes the rows that were moved from a table to quarantine since its last proof: by which operation, how many."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.replay import is_act
from lakeward.quality.ranges.range import Range
from lakeward.quality.ranges.snapshot_chain import History, Snapshot
from lakeward.quality.verdicts.quarantine_policy import rows
from lakeward.registry import changes

CHANGE = "quarantine"
"""Change of a table whose rows were quarantined; its detail has `token` and, as a sentence, `text`."""
_LOOKED_AT = 200


def acts(found: Range) -> Iterator[Snapshot]:
    """The commits of a range that moved rows to quarantine, oldest first."""
    return (
        snapshot
        for snapshot in found.snapshots
        if snapshot.operation in ("overwrite", "delete") and is_act(snapshot.wap_id or "")
    )


def describe(connection: Connection, found: Range, history: History) -> str:
    """A sentence for each such commit; empty if there is none.

    The commit itself is the evidence, also if the operation died before it recorded the change.
    """
    known = {}
    if any(True for _ in acts(found)):
        recorded = changes.newest(connection, "table", found.table, _LOOKED_AT)
        known = {each.detail.get("token"): str(each.detail.get("text") or "") for each in recorded if each.detail}
    return "; ".join(known.get(commit.wap_id) or _plainly(commit, history) for commit in acts(found))


def _plainly(act: Snapshot, history: History) -> str:
    """The sentence from the commit alone."""
    before = history.snapshots.get(act.parent) if act.parent is not None else None
    known = before is not None and before.total is not None and act.total is not None
    number = rows((before.total or 0) - (act.total or 0)) if before is not None and known else "rows"
    return f"{number} moved to quarantine by operation {act.wap_id}, which has no record"
