"""Does a batch follow what a sink holds of its stream? A pure decision over the sink's position and the running batch.

Every answer but `Land` and `AlreadyLanded` blocks the stream: going on could lose or double rows, and only a person
knows which of two histories is the right one.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.connectors.commit_protocol import ranges
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.platform.errors import Blocked


@dataclass(frozen=True)
class Land:
    """Stage and publish the batch as this seq."""

    seq: int


@dataclass(frozen=True)
class AlreadyLanded:
    """The table has this batch: nothing is written."""

    position: Position


@dataclass(frozen=True)
class BlockReason:
    """Wait for a person.

    Attributes:
        reason: short code: `wap-off no-position older-checkpoint diverged gap overlap discontinuous topic-replaced
            source-replaced rolled-back table-replaced unstaged mode-changed no-domains commit-overwritten
            unlogged table-renamed table-missing`.
        what, why, next, code: of the error.
    """

    reason: str
    what: str
    why: str
    next: str
    code: str = ""

    def error(self) -> Blocked:
        """As the error a driver raises."""
        return Blocked(self.what, why=self.why, next=self.next, reason=self.reason, code=self.code)


Decision = Land | AlreadyLanded | BlockReason


def follow(stream: str, table: str, position: Position | None, batch: RunningBatch) -> Decision:
    """What to do with `batch`, given the position that `table` (any sink that keeps one, by its name) has."""
    if position is None:
        if batch.batch == 0:
            return Land(seq=1)
        return BlockReason(
            "no-position",
            f"Stream {stream} has no position in {table}, but its checkpoint is at batch {batch.batch}",
            f"the checkpoint starts at {ranges.show(batch.start)}; what the table holds of it is not known",
            f"give the stream a table of its own: a new table in conf/streams/{stream}.yaml, then: lakeward deploy",
            code="LW-3012",
        )
    if position.query_id == batch.query_id and position.batch >= batch.batch:
        return _same_checkpoint(stream, table, position, batch)
    changed = [topic for topic, known in position.topic_ids.items() if batch.topic_ids.get(topic, known) != known]
    if changed:
        tables = all(each.startswith("table ") for each in changed)  # what no topic can be called
        return BlockReason(
            "source-replaced" if tables else "topic-replaced",
            f"{_called(changed)} of stream {stream} was deleted and created again",
            "; ".join(f"{t}: landed from {position.topic_ids[t]}, now {batch.topic_ids[t]}" for t in sorted(changed))
            + f"; offsets up to {ranges.show(position.end)} belong to the old {'table' if tables else 'topic'}",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3013",
        )
    found = ranges.differences(position.end, batch.start)
    if found:
        kind = ranges.kind_of(found)
        return BlockReason(
            kind,
            f"Batch {batch.batch} of stream {stream} does not continue what {table} holds",
            f"{ranges.in_words(found)} (position: seq {position.seq}, batch {position.batch} of query "
            f"{position.query_id or 'none'}; this query is {batch.query_id})",
            f"lakeward streams recover {stream}   goes on where the table's position ends",
            code="LW-3014",
        )
    return Land(seq=position.seq + 1)


def _called(sources: list[str]) -> str:
    named = ", ".join(sorted(sources))
    return f"T{named[1:]}" if named.startswith("table ") else f"Topic {named}"


def _same_checkpoint(stream: str, table: str, position: Position, batch: RunningBatch) -> Decision:
    """The table has this batch of this very checkpoint, or a later one."""
    if position.batch > batch.batch:
        return BlockReason(
            "older-checkpoint",
            f"The checkpoint of stream {stream} is older than {table}",
            f"it is at batch {batch.batch} (from {ranges.show(batch.start)}), the table holds batch {position.batch} "
            f"of the same query {batch.query_id} (up to {ranges.show(position.end)}): an older copy was restored",
            f"lakeward streams recover {stream}   goes on where the table's position ends",
            code="LW-3015",
        )
    found = ranges.differences(position.end, batch.end)
    if not found:
        return AlreadyLanded(position)
    return BlockReason(
        "diverged",
        f"Batch {batch.batch} of stream {stream} is in {table} with other records",
        f"landed up to {ranges.show(position.end)}, this checkpoint's batch {batch.batch} goes up to "
        f"{ranges.show(batch.end)}: two drivers planned the same batch",
        f"lakeward streams recover {stream}   goes on where the table's position ends",
        code="LW-3011",
    )
