"""May this batch land in this table? Pure: the position, the running batch and main's ancestry decide."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.connectors.commit_protocol import ranges
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Finding, Link, seq_of
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason, Decision, follow
from lakeward.connectors.commit_protocol.position import Position

_BY_WHOM = "it was published by hand, or by Iceberg's own retry under a driver that died before it could count it"


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
    return check_table(state) or follow(state.stream, state.table, state.position, batch)


def check_table(state: TableState) -> BlockReason | None:
    """What blocks whatever the batch: staging switched off, or rows the position calls landed are gone."""
    stream, table, position, ancestry = state.stream, state.table, state.position, state.ancestry
    stray = _landed_around_the_position(state)
    if stray is not None and position is None and stray.wap_id:
        return BlockReason(
            "no-position",
            f"The position of stream {stream} is gone from {table}",
            f"snapshot {stray.snapshot} holds batch {stray.wap_id} of it: somebody removed the property",
            f"put the property back as the newest metadata file with it has it, then: lakeward streams start {stream}",
            code="LW-3067",
        )
    if stray is not None:
        return BlockReason(
            "unstaged",
            f"Snapshot {stray.snapshot} of {table} holds a batch of {stream} that no position counts",
            f"attempt {stray.attempt or stray.wap_id} came to main without it: "
            + (_BY_WHOM if stray.wap_id else "write.wap.enabled was off while it was written"),
            f"lakeward sql --write \"CALL lake.system.rollback_to_snapshot('{table}', {stray.parent})\"   "
            "takes the batch out; it then lands again",
            code="LW-3068",
        )
    if not state.staging:
        return BlockReason(
            "wap-off",
            f"Stream {stream} cannot stage its batches in {table}",
            "table property write.wap.enabled is not true: rows would be visible before they are counted",
            f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled'='true')   then start the stream again",
            code="LW-3069",
        )
    if position is None or ancestry.right:
        return None
    head = f"snapshot {ancestry.head.snapshot}" if ancestry.head else "no snapshot"
    if ancestry.finding is Finding.REPLACED:
        return BlockReason(
            "table-replaced",
            f"Table {table} was replaced under stream {stream}",
            f"main begins anew and is at {head}; everything landed up to seq {position.seq} (snapshot "
            f"{position.snapshot}, {ranges.show(position.end)}) is not in it: {position.totals.landed} rows",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3070",
        )
    kept = state.newest_seq
    lost = f"seq {kept + 1} to {position.seq}" if kept is not None else f"an unknown part up to seq {position.seq}"
    return BlockReason(
        "rolled-back",
        f"Table {table} was rolled back under stream {stream}",
        f"main is at {head} and does not hold snapshot {position.snapshot}; landed but lost: {lost} "
        f"(up to {ranges.show(position.end)})",
        f"lakeward sql --write \"CALL lake.system.set_current_snapshot('{table}', {position.snapshot})\"   "
        "brings the rows back",
        code="LW-3066",
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
