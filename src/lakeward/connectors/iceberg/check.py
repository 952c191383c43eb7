"""Checks whether a batch may land in an Iceberg table, by position, running batch and main's ancestry. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakeward.connectors.commit_protocol import ranges
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Finding, Link, seq_of
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.qualified import procedure
from lakeward.platform.text import word
from lakeward.spec.model import iceberg_properties as properties
from lakeward.spec.sql.statements import argument, call_name

_ROLL_BACK, _SET_BACK = "rollback_to_snapshot", "set_current_snapshot"
_PUBLISHERS = "it was published by hand, or by Iceberg's own retry in a driver that died before it moved the position"


@dataclass(frozen=True)
class TableState:
    """One stream's state in one version of the table's metadata.

    Attributes:
        stream, table: the stream and its table.
        staging: whether `write.wap.enabled` is true.
        raw: the text of the position property, which the compare-and-set compares; None if there is none.
        position: `raw`, parsed.
        ancestry: the walk from main's head to the position's snapshot.
        newest_seq: the newest seq of the stream on main, for messages; None if unknown.
        unreadable: what is wrong with properties by which every commit fails; empty if nothing is.
    """

    stream: str
    table: str
    staging: bool
    raw: str | None
    position: Position | None
    ancestry: Ancestry
    newest_seq: int | None = None
    unreadable: str = ""


def check_table(state: TableState, catalog: str) -> BlockReason | None:
    """What blocks every batch: staging is switched off, or landed rows are missing from the table.

    Args:
        catalog: `catalogs.prefix_in` of the table, for commands.
    """
    stream, table, position, ancestry = state.stream, state.table, state.position, state.ancestry
    stray = _uncounted_snapshot(state)
    if stray is not None and position is None and stray.wap_id:
        return BlockReason(
            "no-position",
            f"The position of stream {stream} is missing in {table}",
            f"snapshot {stray.snapshot} has its batch {stray.wap_id}, so the property was removed",
            f"lakeward streams recover {stream}   puts back the position of the newest metadata file that has it",
            code="LW-3067",
        )
    if stray is not None:
        return BlockReason(
            "unstaged",
            f"Snapshot {stray.snapshot} of {table} has a batch of {stream} that no position counts",
            f"attempt {stray.attempt or stray.wap_id} was published without the position: "
            + (_PUBLISHERS if stray.wap_id else "write.wap.enabled was off while it was written"),
            "lakeward sql --write "
            f"{word(f'{procedure(_ROLL_BACK, table, catalog)}({argument(table)}, {stray.parent})')}   "
            f"removes the batch; then: lakeward streams start {stream}",
            code="LW-3068",
        )
    if state.unreadable:
        return BlockReason(
            "property-unreadable",
            f"Iceberg cannot read a property of {table}, so no commit is possible",
            state.unreadable,
            f"{properties.mended_by(table)}; then: lakeward streams start {stream}",
            code="LW-3489",
        )
    if not state.staging:
        return BlockReason(
            "wap-off",
            f"Stream {stream} cannot stage its batches in {table}",
            "table property write.wap.enabled is not true, so rows would be visible before the position counts them",
            f"lakeward sql --write {word(_wap_on(table, catalog))}   then: lakeward streams start {stream}",
            code="LW-3069",
        )
    if position is None or ancestry.right:
        return None
    head = f"snapshot {ancestry.head.snapshot}" if ancestry.head else "no snapshot"
    if ancestry.finding is Finding.REPLACED:
        return BlockReason(
            "table-replaced",
            f"Table {table} of stream {stream} was replaced",
            f"main has a new history and is at {head}; the {position.totals.landed} rows landed up to seq "
            f"{position.seq} (snapshot {position.snapshot}, {ranges.show(position.end)}) are not in it",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3070",
        )
    newest = state.newest_seq
    lost = f"seq {newest + 1} to {position.seq}" if newest is not None else f"an unknown part up to seq {position.seq}"
    return BlockReason(
        "rolled-back",
        f"Table {table} of stream {stream} was rolled back",
        f"main is at {head} and does not contain snapshot {position.snapshot}; landed but lost: {lost} "
        f"(up to {ranges.show(position.end)})",
        "lakeward sql --write "
        f"{word(f'{procedure(_SET_BACK, table, catalog)}({argument(table)}, {position.snapshot})')}   "
        f"restores the rows; then: lakeward streams start {stream}",
        code="LW-3066",
    )


def no_merge(table: str, why: str) -> BlockReason:
    """What blocks an upsert alone: a MERGE reads properties that an append does not."""
    return BlockReason(
        "property-unreadable",
        f"Iceberg cannot read a property of {table}, so no row can be changed",
        why,
        properties.mended_by(table),
        code="LW-3496",
    )


def unplaced(stream: str, table: str, catalog: str, wrong: Collection[str], why: str) -> BlockReason:
    """What blocks every batch: Iceberg cannot make what says where files go.

    Args:
        catalog: `catalogs.prefix_in` of the table, for commands.
        wrong: properties that it is made of.
    """
    names = ", ".join(f"'{name}'" for name in wrong)
    unset = f"ALTER TABLE {call_name(table, catalog)} UNSET TBLPROPERTIES ({names})"
    return BlockReason(
        "property-unreadable",
        f"Iceberg cannot tell where files of {table} go, so no row can be written",
        f"by {', '.join(wrong)}: {why}",
        f"lakeward sql --write {word(unset)}   or put the class on the class path; then: "
        f"lakeward streams start {stream}",
        code="LW-3515",
    )


def _uncounted_snapshot(state: TableState) -> Link | None:
    """A snapshot of this stream on main that is newer than its position; None if there is none.

    A batch and its position commit together. Such a snapshot exists only if staging was off, or if a staged batch was
    published by hand (`publish_changes`).
    """
    for link in state.ancestry.walked:
        if seq_of(link.attempt or link.wap_id or "", state.stream) is not None:
            return link
    return None


def _wap_on(table: str, catalog: str) -> str:
    return f"ALTER TABLE {call_name(table, catalog)} SET TBLPROPERTIES ('write.wap.enabled'='true')"
