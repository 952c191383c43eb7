"""Which batches of streams the commits of a table are, with their offsets, as the registry has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from lakeward.quality.ranges.snapshot_chain import Snapshot
from lakeward.registry import batches


def batches_of(connection: Connection, snapshots: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """The registry's batches of these commits, by seq.

    A version of a Delta table is a number that other tables have too, and the same table once it was made again: there
    a batch counts only where the commit itself names its stream and seq.
    """
    named = {each.id: (each.wap_id or "").split("/")[:2] for each in snapshots if each.commit is not None}
    found = batches.of_snapshots(connection, [each.id for each in snapshots])
    return [
        each
        for each in found
        if each["snapshot_id"] not in named or named[each["snapshot_id"]] == [each["stream"], str(each["seq"])]
    ]
