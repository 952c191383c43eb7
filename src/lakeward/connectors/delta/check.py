"""May a stream land in this Delta table? Pure: its position, its history and what it can keep decide."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.connectors.commit_protocol import ranges
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Finding, seq_of
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position

DOMAINS = "domainMetadata"
"""The table feature that keeps positions."""


@dataclass(frozen=True)
class TableState:
    """What was read from one version of a table.

    Attributes:
        stream, table: whose position it is, and where.
        version: the one that was read.
        keeps: whether the table can keep a position (table feature `domainMetadata`).
        raw: the position as it stands; None if there is none. The compare-and-set compares it.
        position: `raw`, parsed.
        ancestry: the table's history against the position.
        intact: the commit the position names says the same as the position, or is not in the log any more.
        newest_seq: the newest seq of the stream that the table still holds, for messages; None if unknown.
    """

    stream: str
    table: str
    version: int
    keeps: bool
    raw: str | None
    position: Position | None
    ancestry: Ancestry
    intact: bool = True
    newest_seq: int | None = None


def check_table(state: TableState) -> BlockReason | None:
    """What blocks whatever the batch: no place for a position, or rows the position calls landed are gone."""
    stream, table, position, ancestry = state.stream, state.table, state.position, state.ancestry
    name = f"spark_catalog.{table}"
    for link in ancestry.walked:
        if seq_of(link.attempt or "", stream) is None:
            continue
        return BlockReason(
            "no-position",
            f"The position of stream {stream} is gone from {table}, or was put back",
            f"version {link.snapshot} holds batch {link.attempt} of it, which no position counts: "
            "somebody changed the table's domain metadata",
            f'lakeward sql --write "RESTORE TABLE {name} TO VERSION AS OF {link.snapshot - 1}"   takes the batch out; '
            f"or give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3030",
        )
    if not state.keeps:
        return BlockReason(
            "no-domains",
            f"Delta table {table} cannot keep the position of stream {stream}",
            "it lacks the table feature domainMetadata: rows could not be counted in their own commit",
            f'lakeward sql --write "ALTER TABLE {name} SET TBLPROPERTIES '
            "('delta.feature.domainMetadata' = 'supported')\"   then start the stream again",
            code="LW-3031",
        )
    if position is None:
        return None
    if not state.intact:
        return BlockReason(
            "commit-overwritten",
            f"Version {position.snapshot} of {table} is not what stream {stream} committed",
            f"the table's state counts seq {position.seq} ({ranges.show(position.end)}), its log does not: two "
            "processes wrote one version: one of them is no application of Lakeward (docs/adr/0045)",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3032",
        )
    if ancestry.right:
        return None
    if ancestry.finding is Finding.REPLACED:
        return BlockReason(
            "table-replaced",
            f"Table {table} was replaced under stream {stream}",
            f"it is at version {state.version} and begins anew after version {position.snapshot}; everything landed up "
            f"to seq {position.seq} ({ranges.show(position.end)}) is not in it: {position.totals.landed} rows",
            f'lakeward sql --write "RESTORE TABLE {name} TO VERSION AS OF {position.snapshot}"   brings the rows back; '
            f"or give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3033",
        )
    kept = state.newest_seq
    lost = f"seq {kept + 1} to {position.seq}" if kept is not None else f"an unknown part up to seq {position.seq}"
    return BlockReason(
        "rolled-back",
        f"Table {table} was restored to an older version under stream {stream}",
        f"it is at version {state.version} and does not go on from version {position.snapshot}; landed but lost: "
        f"{lost} (up to {ranges.show(position.end)})",
        f'lakeward sql --write "RESTORE TABLE {name} TO VERSION AS OF {position.snapshot}"   brings the rows back',
        code="LW-3029",
    )
