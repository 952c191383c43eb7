"""The continuity check: decides from a sink's position whether the running batch may land. Pure.

Every decision except `Land` and `AlreadyLanded` blocks the stream: to continue could lose or duplicate rows, and only a
person knows which of two histories is correct.
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
    """The table already has this batch: nothing is written."""

    position: Position


@dataclass(frozen=True)
class BlockReason:
    """Why the stream is blocked until a person acts.

    Attributes:
        reason: short code: `wap-off no-position older-checkpoint diverged gap overlap discontinuous topic-replaced
            source-replaced rolled-back table-replaced unstaged mode-changed no-domains commit-overwritten
            unlogged table-renamed table-missing`.
        what, why, next, code: the parts of the error.
    """

    reason: str
    what: str
    why: str
    next: str
    code: str = ""

    def error(self) -> Blocked:
        """The error that a driver raises."""
        return Blocked(self.what, why=self.why, next=self.next, reason=self.reason, code=self.code)


Decision = Land | AlreadyLanded | BlockReason


def follow(stream: str, table: str, position: Position | None, batch: RunningBatch) -> Decision:
    """Decide about `batch` by the position in `table`, the name of any sink that stores one."""
    if position is None:
        if batch.batch == 0:
            return Land(seq=1)
        return BlockReason(
            "no-position",
            f"Stream {stream} has no position in {table}, but its checkpoint is at batch {batch.batch}",
            f"the checkpoint starts at {ranges.show(batch.start)}; which of its batches are in the table is not known",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3012",
        )
    if position.query_id == batch.query_id and position.batch >= batch.batch:
        return _same_checkpoint(stream, table, position, batch)
    changed = [topic for topic, known in position.topic_ids.items() if batch.topic_ids.get(topic, known) != known]
    if changed:
        tables = all(name.startswith("table ") for name in changed)  # no topic name has a space
        return BlockReason(
            "source-replaced" if tables else "topic-replaced",
            f"{_source_names(changed)} of stream {stream} was deleted and created again",
            "; ".join(f"{t}: landed from {position.topic_ids[t]}, now {batch.topic_ids[t]}" for t in sorted(changed))
            + f"; offsets up to {ranges.show(position.end)} belong to the old {'table' if tables else 'topic'}",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3013",
        )
    differences = ranges.differences(position.end, batch.start)
    if differences:
        kind = ranges.kind_of(differences)
        return BlockReason(
            kind,
            f"Batch {batch.batch} of stream {stream} does not start at its position in {table}",
            f"{ranges.in_words(differences)} (position: seq {position.seq}, batch {position.batch} of query "
            f"{position.query_id or 'none'}; this query is {batch.query_id})",
            f"lakeward streams recover {stream}   continues from the table's position",
            code="LW-3014",
        )
    return Land(seq=position.seq + 1)


def _source_names(sources: list[str]) -> str:
    named = ", ".join(sorted(sources))
    return f"T{named[1:]}" if named.startswith("table ") else f"Topic {named}"


def _same_checkpoint(stream: str, table: str, position: Position, batch: RunningBatch) -> Decision:
    """The table has this batch, or a later one, of the same checkpoint."""
    if position.batch > batch.batch:
        return BlockReason(
            "older-checkpoint",
            f"The checkpoint of stream {stream} is older than {table}",
            f"it is at batch {batch.batch} (from {ranges.show(batch.start)}), the table has batch {position.batch} "
            f"of the same query {batch.query_id} (up to {ranges.show(position.end)}): an older copy was restored",
            f"lakeward streams recover {stream}   continues from the table's position",
            code="LW-3015",
        )
    if not ranges.differences(position.end, batch.end):
        return AlreadyLanded(position)
    return BlockReason(
        "diverged",
        f"Batch {batch.batch} of stream {stream} landed in {table} with other records",
        f"landed up to {ranges.show(position.end)}, this checkpoint's batch {batch.batch} goes up to "
        f"{ranges.show(batch.end)}: two drivers planned the same batch",
        f"lakeward streams recover {stream}   continues from the table's position",
        code="LW-3011",
    )
