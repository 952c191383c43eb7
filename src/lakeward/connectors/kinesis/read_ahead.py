"""Where the next batch ends. Kinesis can only be read to learn that: what is read here is read again by the batch.

Marks go to Spark's offset log before the batch runs, so a batch that runs again reads the very same records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lakeward.connectors.kinesis.shard_offsets import BEGIN, END, HORIZON, Marks, ShardOffset
from lakeward.connectors.kinesis.stream import Shard, Stream

SHARDS_EVERY_S = 30.0
"""How old the list of shards may be; the end of a shard asks for it at once."""
SEEN_EVERY_MS = 3_600_000
"""How often an idle shard's mark says anew that everything was seen: an empty batch an hour."""
_PASSES = 4


class ReadAhead:
    """Moves marks forward, at most `most` records a step.

    Args:
        stream: the stream.
        most: records over all shards.
        now: seconds since 1970.
    """

    def __init__(self, stream: Stream, most: int, now: Callable[[], float] = time.time) -> None:
        self.stream = stream
        self.most = most
        self.now = now
        self._shards: dict[str, Shard] = {}
        self._listed = 0.0
        self._iterators: dict[str, tuple[str, str]] = {}  # shard -> (mark, iterator that goes on after it)
        self._retention_ms: int | None = None

    def begin(self, where: ShardOffset) -> Marks:
        """The marks of a stream that begins: its oldest shards; their children follow them."""
        marks = {BEGIN: str(where)}
        self._discover(marks, self._list())
        return marks

    def step(self, marks: Mapping[str, str]) -> Marks:
        """The marks after at most `most` further records; the same ones where there are none.

        Raises:
            LookupError: records after a mark are gone.
        """
        found = dict(marks)
        if self.now() - self._listed > SHARDS_EVERY_S:
            self._discover(found, self._list())
        remaining = self.most
        for turn in range(_PASSES):
            reading = [shard for shard, mark in sorted(found.items()) if shard != BEGIN and mark != END]
            share = max(1, remaining // max(1, len(reading))) if turn == 0 else remaining
            taken = 0
            for shard in reading:
                if remaining > 0:
                    count = self._read(found, shard, min(share, remaining))
                    taken, remaining = taken + count, remaining - count
            ended = [shard for shard in reading if found[shard] == END]
            if ended:
                self._discover(found, self._list())
            if remaining <= 0 or not (taken or ended):
                break
        return found

    def _list(self) -> dict[str, Shard]:
        self._shards, self._listed = self.stream.shards(), self.now()
        return self._shards

    def _discover(self, marks: Marks, shards: Mapping[str, Shard]) -> None:
        """Take up shards whose parents were read to their ends, and forget ended ones that Kinesis forgot."""
        for shard in [each for each in marks if each != BEGIN and each not in shards]:
            if marks[shard] != END:
                raise LookupError(f"Kinesis no longer has shard {shard}, which was not read to its end")
            del marks[shard]
        for shard in sorted(set(shards) - set(marks)):
            if all(marks.get(parent) == END for parent in shards[shard].parents if parent in shards):
                marks[shard] = marks.get(BEGIN, str(ShardOffset(HORIZON)))

    def _read(self, marks: Marks, shard: str, most: int) -> int:
        """Move one shard's mark; how many records that were."""
        mark = ShardOffset.parse(marks[shard])
        known = self._iterators.get(shard)
        if known is None or known[0] != mark.where:
            self._expect(shard, mark)
            known = (mark.where, self.stream.iterator(shard, mark))
        asked = int(self.now() * 1000)
        answer = self.stream.records(known[1], most)
        if answer is None:
            self._iterators.pop(shard, None)  # too old: the next step makes another
            return 0
        if answer.records:
            last = answer.records[-1]
            arrived = int(last["ApproximateArrivalTimestamp"].timestamp() * 1000)
            seen = asked if answer.at_tip else min(arrived, asked)
            mark = ShardOffset(str(last["SequenceNumber"]), max(mark.seen_ms, seen))
        elif answer.at_tip and asked - mark.seen_ms >= SEEN_EVERY_MS:
            mark = ShardOffset(mark.where, asked)
        over = answer.after is None or (answer.at_tip and not answer.records and self._shards[shard].closed)
        marks[shard] = END if over else str(mark)
        if over or answer.after is None:
            self._iterators.pop(shard, None)
        else:
            self._iterators[shard] = (mark.where, answer.after)
        return len(answer.records)

    def _expect(self, shard: str, mark: ShardOffset) -> None:
        """Refuse to go on after a mark where retention may have taken what was not seen."""
        if not mark.seen_ms or self.now() * 1000 - mark.seen_ms <= self._retention():
            return
        if mark.sequence is None or not self.stream.has(shard, mark.sequence):
            raise LookupError(f"Kinesis no longer has what follows {mark} in shard {shard}")

    def _retention(self) -> int:
        if self._retention_ms is None:
            self._retention_ms = self.stream.summary()[1]
        return self._retention_ms
