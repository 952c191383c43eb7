"""Does Kinesis still have what comes after a position?

It never says no: asked for what follows a record that retention took, it begins at the oldest record it has.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lakeward.connectors.kinesis import shard_offsets
from lakeward.connectors.kinesis.shard_offsets import BEGIN, ShardOffset
from lakeward.connectors.kinesis.stream import Stream
from lakeward.platform.errors import Blocked
from lakeward.platform.text import moment


def check(stream: str, source: Stream, at: str, now: float) -> None:
    """Compare a position with what the shards still hold.

    Args:
        stream: for the text.
        at: the position.
        now: seconds since 1970.

    Raises:
        Blocked: records may be gone that were never landed.
    """
    read = {shard: ShardOffset.parse(mark) for shard, mark in shard_offsets.parse(at).items() if shard != BEGIN}
    kept = source.shards()
    retention = source.summary()[1]
    oldest = int(now * 1000) - retention
    gone = []
    for shard, mark in sorted(read.items()):
        if mark.ended:
            continue
        if shard not in kept:
            gone.append(f"{shard}: the shard itself, read up to {mark.sequence or 'no record'}")
        elif 0 < mark.seen_ms < oldest and (mark.sequence is None or not source.has(shard, mark.sequence)):
            gone.append(f"{shard}: what arrived from {_time(mark.seen_ms)} to {_time(oldest)}")
    if gone:
        raise Blocked(
            f"Kinesis no longer has records that stream {stream} may never have landed",
            why=f"retention of {retention // 3_600_000} h took " + "; ".join(gone),
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy   "
            "lands what is left",
            reason="source-expired",
            code="LW-3123",
        )


def _time(moment_ms: int) -> str:
    return moment(datetime.fromtimestamp(moment_ms / 1000, UTC))
