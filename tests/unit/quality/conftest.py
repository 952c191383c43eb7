"""Small histories to decide on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from lakeward.quality.ranges.snapshot_chain import History, Snapshot

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def line() -> Callable[..., History]:
    """Makes a history of one line from operations; ids 1, 2, 3 ..., an hour apart, the last at `NOW`, ten rows each;
    `traced` from the snapshot of this number on."""

    def make(*operations: str, verified: int | None = None, gone: int = 0, traced: int = 999) -> History:
        snapshots = {}
        total = 0
        for number, operation in enumerate(operations, 1):
            added = 10 if operation in ("append", "overwrite") else 0
            total += added
            snapshots[number] = Snapshot(
                id=number,
                parent=number - 1 or None,
                sequence=number,
                at=NOW - timedelta(hours=len(operations) - number),
                operation=operation,
                added=added,
                total=total,
                delete_files=0,
                traced=number >= traced,
            )
        kept = {key: each for key, each in snapshots.items() if key > gone}
        return History("ns.t", len(operations) or None, verified, kept)

    return make
