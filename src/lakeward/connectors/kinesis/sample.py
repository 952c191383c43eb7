"""Reads the newest records of a stream as raw rows for a preview, without a query; no position is stored.

Kinesis can only be read forward, so it starts a short time ago, and further back while it finds too few records.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lakeward.connectors.kinesis.shard_offsets import HORIZON, ShardOffset
from lakeward.connectors.kinesis.stream import MOST, Row, Stream, row

BACK_S: tuple[float | None, ...] = (60.0, 3600.0, 86400.0, None)
"""How far back each attempt starts, in seconds; None: at the oldest record."""
_TIMEOUT_S = 20.0


def newest(stream: Stream, most: int, now: float) -> list[Row]:
    """The newest records of all shards, `most` in all, oldest first. Records that do not arrive in time are missing."""
    shards, limit = sorted(stream.shards()), time.monotonic() + _TIMEOUT_S
    rows: list[Row] = []
    for back in BACK_S:
        begin = ShardOffset(HORIZON) if back is None else ShardOffset.at(int((now - back) * 1000))
        rows = [record for shard in shards for record in _newest_of(stream, shard, begin, most, limit)]
        if len(rows) >= most or time.monotonic() > limit:
            break
    return sorted(rows, key=lambda record: (record[5], record[3], int(record[4])))[-most:]


def _newest_of(stream: Stream, shard: str, begin: ShardOffset, most: int, limit: float) -> Sequence[Row]:
    """The last records of one shard after a mark."""
    newest: list[Row] = []
    iterator: str | None = stream.iterator(shard, begin)
    while iterator is not None and time.monotonic() < limit:
        answer = stream.records(iterator, MOST)
        if answer is None:
            break
        newest = [*newest, *(row(stream.place, shard, record) for record in answer.records)][-most:]
        iterator = None if answer.at_tip else answer.after
    return newest
