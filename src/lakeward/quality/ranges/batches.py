"""Maps commits of a table to the streams' batches in the registry, with their offsets."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from lakeward.quality.ranges.snapshot_chain import Snapshot
from lakeward.registry import batches
from lakeward.registry.batches import Batch


def batches_of(connection: Connection, snapshots: Sequence[Snapshot]) -> list[Batch]:
    """The registry's batches of these commits, by seq.

    A Delta version is a number that other tables have too, also a recreated table of the same name. For Delta a batch
    counts only if the commit itself names its stream and seq.
    """
    named = {
        snapshot.id: (snapshot.wap_id or "").split("/")[:2] for snapshot in snapshots if snapshot.commit is not None
    }
    found = batches.of_snapshots(connection, [snapshot.id for snapshot in snapshots])
    return [
        each
        for each in found
        if each.snapshot_id not in named or named[each.snapshot_id] == [each.stream, str(each.seq)]
    ]
