"""Checks that Kinesis still has the records after a position.

Kinesis itself reports no gap: after a record that retention deleted, it continues at the oldest record it has.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lakeward.connectors.kinesis import shard_offsets
from lakeward.connectors.kinesis.shard_offsets import BEGIN, ShardOffset
from lakeward.connectors.kinesis.stream import Stream
from lakeward.platform.errors import Blocked
from lakeward.platform.text import moment


def check(stream: str, source: Stream, at: str, now: float) -> None:
    """Compare a position with the records that the shards still have.

    Args:
        stream: the stream's id, for the message.
        at: the position.
        now: the current time, in seconds since 1970.

    Raises:
        Blocked: records that were never landed may have been deleted.
    """
    read = {shard: ShardOffset.parse(mark) for shard, mark in shard_offsets.parse(at).items() if shard != BEGIN}
    shards = source.shards()
    retention = source.summary()[1]
    oldest = int(now * 1000) - retention
    deleted = []
    for shard, mark in sorted(read.items()):
        if mark.ended:
            continue
        if shard not in shards:
            deleted.append(f"{shard}: the shard itself, read up to {mark.sequence or 'no record'}")
        elif 0 < mark.seen_ms < oldest and (mark.sequence is None or not source.has(shard, mark.sequence)):
            deleted.append(f"{shard}: records that arrived from {_time(mark.seen_ms)} to {_time(oldest)}")
    if deleted:
        raise Blocked(
            f"Kinesis no longer has records that stream {stream} may not have landed",
            why=f"retention of {retention // 3_600_000} h deleted " + "; ".join(deleted),
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy   "
            "lands the available records",
            reason="source-expired",
            code="LW-3123",
        )


def _time(moment_ms: int) -> str:
    return moment(datetime.fromtimestamp(moment_ms / 1000, UTC))
