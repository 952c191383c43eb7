"""The newest records of a stream as raw rows, outside of any query: nothing is written down.

Kinesis reads forward alone, so the look begins a little while ago, and further back as long as that was too little.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lakeward.connectors.kinesis.shard_offsets import HORIZON, ShardOffset
from lakeward.connectors.kinesis.stream import MOST, Row, Stream, row

BACK_S: tuple[float | None, ...] = (60.0, 3600.0, 86400.0, None)
"""How far back each look begins; None: at the oldest record there is."""
_TIMEOUT_S = 20.0


def newest(stream: Stream, most: int, now: float) -> list[Row]:
    """The newest records over all shards, `most` in all, oldest first; what does not come in time is left out."""
    shards, limit = sorted(stream.shards()), time.monotonic() + _TIMEOUT_S
    found: list[Row] = []
    for back in BACK_S:
        begin = ShardOffset(HORIZON) if back is None else ShardOffset.at(int((now - back) * 1000))
        found = [each for shard in shards for each in _of(stream, shard, begin, most, limit)]
        if len(found) >= most or time.monotonic() > limit:
            break
    return sorted(found, key=lambda each: (each[5], each[3], int(each[4])))[-most:]


def _of(stream: Stream, shard: str, begin: ShardOffset, most: int, limit: float) -> Sequence[Row]:
    """The last records of one shard after a mark."""
    kept: list[Row] = []
    iterator: str | None = stream.iterator(shard, begin)
    while iterator is not None and time.monotonic() < limit:
        answer = stream.records(iterator, MOST)
        if answer is None:
            break
        kept = [*kept, *(row(stream.place, shard, each) for each in answer.records)][-most:]
        iterator = None if answer.at_tip else answer.after
    return kept
