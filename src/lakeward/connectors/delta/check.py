"""Checks whether a stream may land in a Delta table, from its position, ancestry and table features. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.connectors.commit_protocol import ranges
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Finding, seq_of
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import properties
from lakeward.platform.text import word
from lakeward.spec.sql.statements import call_name

DOMAINS = "domainMetadata"
"""The table feature that stores positions."""
_DOMAINS_ON = f"SET TBLPROPERTIES ('delta.feature.{DOMAINS}' = 'supported')"


@dataclass(frozen=True)
class TableState:
    """The state of one stream in one version of a table.

    Attributes:
        stream, table: the stream and the table.
        version: the version that was read.
        supported: whether the table can store a position (table feature `domainMetadata`).
        raw: the stored position, which the compare-and-set compares; None if there is none.
        position: `raw`, parsed.
        ancestry: the commits between the position and this version.
        intact: whether the commit that the position names has the same position, or is no longer in the log.
        newest_seq: the newest seq of the stream that is still in the table, for messages; None if unknown.
        unreadable: properties by which every batch fails, with their values.
    """

    stream: str
    table: str
    version: int
    supported: bool
    raw: str | None
    position: Position | None
    ancestry: Ancestry
    intact: bool = True
    newest_seq: int | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)


def check_table(state: TableState) -> BlockReason | None:
    """Why no batch may land: the table cannot store a position, or landed rows are missing from it."""
    stream, table, position, ancestry = state.stream, state.table, state.position, state.ancestry
    for link in ancestry.walked:
        if seq_of(link.attempt or "", stream) is None:
            continue
        return BlockReason(
            "no-position",
            f"The position of stream {stream} was removed from {table}, or set back",
            f"version {link.snapshot} has batch {link.attempt} of the stream, which no position counts: "
            "the table's domain metadata was changed by hand",
            f"{restore(table, link.snapshot - 1)}   removes the batch; "
            f"or give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3030",
        )
    if state.unreadable:
        return unreadable(table, state.unreadable)
    if not state.supported:
        return BlockReason(
            "no-domains",
            f"Delta table {table} cannot store the position of stream {stream}",
            "it lacks the table feature domainMetadata, so a position cannot be committed together with its rows",
            f"lakeward sql --write {word(f'ALTER TABLE {catalog_name(table)} {_DOMAINS_ON}')}   "
            f"then: lakeward streams start {stream}",
            code="LW-3031",
        )
    if position is None:
        return None
    if not state.intact:
        return BlockReason(
            "commit-overwritten",
            f"Version {position.snapshot} of {table}, committed by stream {stream}, was overwritten",
            f"the table's state has seq {position.seq} ({ranges.show(position.end)}), its log does not: two "
            "processes wrote one version, and one of them is not an application of Lakeward (docs/adr/0045)",
            f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3032",
        )
    if ancestry.right:
        return None
    if ancestry.finding is Finding.REPLACED:
        return BlockReason(
            "table-replaced",
            f"Table {table} was replaced under stream {stream}",
            f"it is at version {state.version}, and a commit after version {position.snapshot} replaced all rows; "
            f"{position.totals.landed} landed rows up to seq {position.seq} ({ranges.show(position.end)}) are missing",
            f"{restore(table, position.snapshot)}   restores the rows; "
            f"or give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3033",
        )
    newest = state.newest_seq
    lost = f"seq {newest + 1} to {position.seq}" if newest is not None else f"an unknown part up to seq {position.seq}"
    return BlockReason(
        "rolled-back",
        f"Table {table} was restored to an older version under stream {stream}",
        f"it is at version {state.version}, which does not continue version {position.snapshot}; missing landed rows: "
        f"{lost} (up to {ranges.show(position.end)})",
        f"{restore(table, position.snapshot)}   restores the rows",
        code="LW-3029",
    )


def unreadable(table: str, odd: Mapping[str, str]) -> BlockReason:
    """What blocks every batch, and every other use by Spark: Delta cannot read these properties of the table."""
    return BlockReason(
        "property-unreadable",
        f"Delta cannot read a property of {table}, so no batch can be committed",
        properties.words(odd),
        properties.mended_by(table, odd),
        code="LW-3492",
    )


def restore(table: str, version: int | None) -> str:
    """The command that takes the rows of a version back."""
    return f"lakeward sql --write {word(f'RESTORE TABLE {catalog_name(table)} TO VERSION AS OF {version}')}"


def catalog_name(table: str) -> str:
    """The table in Spark's session catalog. A keyword, e.g. `date`, is in backticks there, which a shell expands."""
    return call_name(table, "spark_catalog")
