"""Finds the end of the next batch by reading ahead: Kinesis has no other way. The batch reads the same records again.

The marks are in Spark's offset log before the batch runs, so a retried batch reads exactly the same records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lakeward.connectors.kinesis.shard_offsets import BEGIN, END, HORIZON, Marks, ShardOffset
from lakeward.connectors.kinesis.stream import Shard, Stream

SHARDS_EVERY_S = 30.0
"""The interval of listing the shards; they are also listed when the end of a shard is reached."""
SEEN_EVERY_MS = 3_600_000
"""The interval at which `seen_ms` of an idle shard is updated, by an empty batch."""
_PASSES = 4


class ReadAhead:
    """Moves marks forward, at most `most` records a step.

    Args:
        stream: the stream.
        most: the most records of a step, over all shards.
        now: returns the current time in seconds since 1970.
    """

    def __init__(self, stream: Stream, most: int, now: Callable[[], float] = time.time) -> None:
        self.stream = stream
        self.most = most
        self.now = now
        self._shards: dict[str, Shard] = {}
        self._listed = 0.0
        self._iterators: dict[str, tuple[str, str]] = {}  # shard -> (mark, iterator after it)
        self._retention_ms: int | None = None

    def begin(self, where: ShardOffset) -> Marks:
        """The marks of a new position: the oldest shards; their children are added at their ends."""
        marks = {BEGIN: str(where)}
        self._discover(marks, self._list())
        return marks

    def step(self, marks: Mapping[str, str]) -> Marks:
        """The marks after at most `most` further records; unchanged if there are none.

        Raises:
            LookupError: records after a mark no longer exist.
        """
        advanced = dict(marks)
        if self.now() - self._listed > SHARDS_EVERY_S:
            self._discover(advanced, self._list())
        remaining = self.most
        for turn in range(_PASSES):
            reading = [shard for shard, mark in sorted(advanced.items()) if shard != BEGIN and mark != END]
            share = max(1, remaining // max(1, len(reading))) if turn == 0 else remaining
            total = 0
            for shard in reading:
                if remaining > 0:
                    count = self._read(advanced, shard, min(share, remaining))
                    total, remaining = total + count, remaining - count
            ended = [shard for shard in reading if advanced[shard] == END]
            if ended:
                self._discover(advanced, self._list())
            if remaining <= 0 or not (total or ended):
                break
        return advanced

    def _list(self) -> dict[str, Shard]:
        self._shards, self._listed = self.stream.shards(), self.now()
        return self._shards

    def _discover(self, marks: Marks, shards: Mapping[str, Shard]) -> None:
        """Add shards whose parents were read to their ends, and drop ended shards that Kinesis no longer lists."""
        for shard in [shard for shard in marks if shard != BEGIN and shard not in shards]:
            if marks[shard] != END:
                raise LookupError(f"Kinesis no longer has shard {shard}, which was not read to its end")
            del marks[shard]
        for shard in sorted(set(shards) - set(marks)):
            if all(marks.get(parent) == END for parent in shards[shard].parents if parent in shards):
                marks[shard] = marks.get(BEGIN, str(ShardOffset(HORIZON)))

    def _read(self, marks: Marks, shard: str, most: int) -> int:
        """Advance the mark of one shard; returns the number of records."""
        mark = ShardOffset.parse(marks[shard])
        cached = self._iterators.get(shard)
        if cached is None or cached[0] != mark.where:
            self._check_retained(shard, mark)
            cached = (mark.where, self.stream.iterator(shard, mark))
        requested_at = int(self.now() * 1000)
        answer = self.stream.records(cached[1], most)
        if answer is None:
            self._iterators.pop(shard, None)  # it expired: the next step requests another
            return 0
        if answer.records:
            last = answer.records[-1]
            arrived = int(last["ApproximateArrivalTimestamp"].timestamp() * 1000)
            seen = requested_at if answer.at_tip else min(arrived, requested_at)
            mark = ShardOffset(str(last["SequenceNumber"]), max(mark.seen_ms, seen))
        elif answer.at_tip and requested_at - mark.seen_ms >= SEEN_EVERY_MS:
            mark = ShardOffset(mark.where, requested_at)
        ended = answer.after is None or (answer.at_tip and not answer.records and self._shards[shard].closed)
        marks[shard] = END if ended else str(mark)
        if ended or answer.after is None:
            self._iterators.pop(shard, None)
        else:
            self._iterators[shard] = (mark.where, answer.after)
        return len(answer.records)

    def _check_retained(self, shard: str, mark: ShardOffset) -> None:
        """Raise if retention may have deleted unseen records after a mark."""
        if not mark.seen_ms or self.now() * 1000 - mark.seen_ms <= self._retention():
            return
        if mark.sequence is None or not self.stream.has(shard, mark.sequence):
            raise LookupError(f"Kinesis no longer has the records after {mark} in shard {shard}")

    def _retention(self) -> int:
        if self._retention_ms is None:
            self._retention_ms = self.stream.summary()[1]
        return self._retention_ms
