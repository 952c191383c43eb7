"""May this batch land? A pure decision over the table's position, the running batch and main's ancestry.

Every answer but `Land` and `AlreadyLanded` blocks the stream: going on could lose or double rows, and only a person
knows which of two histories is the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.connectors.iceberg import ranges
from lakeward.connectors.iceberg.ancestry import Ancestry, Finding, Link, seq_of
from lakeward.connectors.iceberg.position import Position
from lakeward.errors import Blocked


@dataclass(frozen=True)
class RunningBatch:
    """The batch a query is running.

    Attributes:
        query_id, batch: the checkpoint's identity and the number of the batch.
        start, end: source name -> canonical offset, `-` without data yet.
        topic_ids: topic -> id in the broker, as far as known.
    """

    query_id: str
    batch: int
    start: Mapping[str, str]
    end: Mapping[str, str]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def advances(self) -> bool:
        """Whether any source's offset moves."""
        return dict(self.start) != dict(self.end)


@dataclass(frozen=True)
class Land:
    """Stage and publish the batch as this seq."""

    seq: int


@dataclass(frozen=True)
class AlreadyLanded:
    """The table has this batch: nothing is written."""

    position: Position


@dataclass(frozen=True)
class Halt:
    """Wait for a person.

    Attributes:
        reason: short code: `wap-off no-position older-checkpoint diverged gap overlap discontinuous topic-replaced
            rolled-back table-replaced unstaged`.
        what, why, next: the texts of the error.
    """

    reason: str
    what: str
    why: str
    next: str

    def error(self) -> Blocked:
        """As the error a driver raises."""
        return Blocked(self.what, why=self.why, next=self.next, reason=self.reason)


Decision = Land | AlreadyLanded | Halt


@dataclass(frozen=True)
class TableState:
    """What was read from one version of the table's metadata.

    Attributes:
        stream, table: whose position it is, and where.
        staging: whether `write.wap.enabled` is true.
        raw: the position property as it stands; None if there is none. The compare-and-set compares it.
        position: `raw`, parsed.
        ancestry: main against the position.
        newest_seq: the newest seq of the stream that main still shows, for messages; None if unknown.
    """

    stream: str
    table: str
    staging: bool
    raw: str | None
    position: Position | None
    ancestry: Ancestry
    newest_seq: int | None = None


def decide(state: TableState, batch: RunningBatch) -> Decision:
    """What to do with `batch`, given the table."""
    halt = check_table(state)
    if halt is not None:
        return halt
    position, stream, table = state.position, state.stream, state.table
    if position is None:
        if batch.batch == 0:
            return Land(seq=1)
        return Halt(
            "no-position",
            f"Stream {stream} has no position in {table}, but its checkpoint is at batch {batch.batch}",
            f"the checkpoint starts at {ranges.show(batch.start)}; what the table holds of it is not known",
            f"give the stream a table of its own: a new table in conf/streams/{stream}.yaml, then: lakeward deploy",
        )
    if position.query_id == batch.query_id and position.batch >= batch.batch:
        return _same_checkpoint(state, position, batch)
    changed = [topic for topic, known in position.topic_ids.items() if batch.topic_ids.get(topic, known) != known]
    if changed:
        return Halt(
            "topic-replaced",
            f"Topic {', '.join(sorted(changed))} of stream {stream} was deleted and created again",
            "; ".join(f"{t}: landed from {position.topic_ids[t]}, now {batch.topic_ids[t]}" for t in sorted(changed))
            + f"; offsets up to {ranges.show(position.end)} belong to the old topic",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
        )
    found = ranges.differences(position.end, batch.start)
    if found:
        kind = ranges.kind_of(found)
        return Halt(
            kind,
            f"Batch {batch.batch} of stream {stream} does not continue what {table} holds",
            f"{ranges.in_words(found)} (position: seq {position.seq}, batch {position.batch} of query "
            f"{position.query_id or 'none'}; this query is {batch.query_id})",
            f"lakeward streams recover {stream}   goes on where the table's position ends",
        )
    return Land(seq=position.seq + 1)


def check_table(state: TableState) -> Halt | None:
    """What blocks whatever the batch: staging switched off, or rows the position calls landed are gone."""
    stream, table, position, ancestry = state.stream, state.table, state.position, state.ancestry
    stray = _landed_around_the_position(state)
    if stray is not None and position is None and stray.wap_id:
        return Halt(
            "no-position",
            f"The position of stream {stream} is gone from {table}",
            f"snapshot {stray.snapshot} holds batch {stray.wap_id} of it: somebody removed the property",
            f"put the property back as the newest metadata file with it has it, then: lakeward streams start {stream}",
        )
    if stray is not None:
        return Halt(
            "unstaged",
            f"Snapshot {stray.snapshot} of {table} holds a batch of {stream} that no position counts",
            f"attempt {stray.attempt or stray.wap_id} came to main without it: "
            + ("it was published by hand" if stray.wap_id else "write.wap.enabled was off while it was written"),
            f"lakeward sql --write \"CALL lake.system.rollback_to_snapshot('{table}', {stray.parent})\"   "
            "takes the batch out; it then lands again",
        )
    if not state.staging:
        return Halt(
            "wap-off",
            f"Stream {stream} cannot stage its batches in {table}",
            "table property write.wap.enabled is not true: rows would be visible before they are counted",
            f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled'='true')   then start the stream again",
        )
    if position is None or ancestry.right:
        return None
    head = f"snapshot {ancestry.head.snapshot}" if ancestry.head else "no snapshot"
    if ancestry.finding is Finding.REPLACED:
        return Halt(
            "table-replaced",
            f"Table {table} was replaced under stream {stream}",
            f"main begins anew and is at {head}; everything landed up to seq {position.seq} (snapshot "
            f"{position.snapshot}, {ranges.show(position.end)}) is not in it: {position.totals.landed} rows",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
        )
    kept = state.newest_seq
    lost = f"seq {kept + 1} to {position.seq}" if kept is not None else f"an unknown part up to seq {position.seq}"
    return Halt(
        "rolled-back",
        f"Table {table} was rolled back under stream {stream}",
        f"main is at {head} and does not hold snapshot {position.snapshot}; landed but lost: {lost} "
        f"(up to {ranges.show(position.end)})",
        f"lakeward sql --write \"CALL lake.system.set_current_snapshot('{table}', {position.snapshot})\"   "
        "brings the rows back",
    )


def _landed_around_the_position(state: TableState) -> Link | None:
    """A snapshot of this stream on main, newer than its position.

    A batch and its position commit together, so there is none unless staging was off, or somebody published a staged
    batch by hand (`publish_changes`).
    """
    for link in state.ancestry.walked:
        if seq_of(link.attempt or link.wap_id or "", state.stream) is not None:
            return link
    return None


def _same_checkpoint(state: TableState, position: Position, batch: RunningBatch) -> Decision:
    """The table has this batch of this very checkpoint, or a later one."""
    if position.batch > batch.batch:
        return Halt(
            "older-checkpoint",
            f"The checkpoint of stream {state.stream} is older than {state.table}",
            f"it is at batch {batch.batch} (from {ranges.show(batch.start)}), the table holds batch {position.batch} "
            f"of the same query {batch.query_id} (up to {ranges.show(position.end)}): an older copy was restored",
            f"lakeward streams recover {state.stream}   goes on where the table's position ends",
        )
    found = ranges.differences(position.end, batch.end)
    if not found:
        return AlreadyLanded(position)
    return Halt(
        "diverged",
        f"Batch {batch.batch} of stream {state.stream} is in {state.table} with other records",
        f"landed up to {ranges.show(position.end)}, this checkpoint's batch {batch.batch} goes up to "
        f"{ranges.show(batch.end)}: two drivers planned the same batch",
        f"lakeward streams recover {state.stream}   goes on where the table's position ends",
    )
