"""What is told of rows that went from their table into quarantine since it was proven: by which act, how many."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.replay import is_act
from lakeward.quality.ranges.range import Range
from lakeward.quality.ranges.snapshot_chain import History, Snapshot
from lakeward.quality.verdicts.quarantine_policy import rows
from lakeward.registry import changes

CHANGE = "quarantine"
"""Of the table: rows that were put aside; its detail has `token` and, as a sentence, `text`."""
_LOOKED_AT = 200


def acts(found: Range) -> Iterator[Snapshot]:
    """The commits of a range that took rows out into quarantine, oldest first."""
    return (each for each in found.snapshots if each.operation in ("overwrite", "delete") and is_act(each.wap_id or ""))


def told(connection: Connection, found: Range, history: History) -> str:
    """A sentence for each such commit; empty where there is none.

    The commit is what tells that rows went, also where who did it died before that was kept.
    """
    known = {}
    if any(True for _ in acts(found)):
        recorded = changes.newest(connection, "table", found.table, _LOOKED_AT)
        known = {each["detail"].get("token"): each["detail"].get("text") for each in recorded if each["detail"]}
    return "; ".join(known.get(each.wap_id) or _plainly(each, history) for each in acts(found))


def _plainly(act: Snapshot, history: History) -> str:
    """What the commit itself says."""
    before = history.snapshots.get(act.parent) if act.parent is not None else None
    known = before is not None and before.total is not None and act.total is not None
    number = rows((before.total or 0) - (act.total or 0)) if before is not None and known else "rows"
    return f"{number} went to quarantine by act {act.wap_id}, whose record is missing"
