"""Checks whether a stream may land in a PostgreSQL table, from the table's oid and the position. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.connectors.commit_protocol import ranges
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.postgres.columns import Column
from lakeward.connectors.postgres.name import Name, quote


@dataclass(frozen=True)
class TableState:
    """The state of one stream in one table, from the catalog and the table of positions.

    Attributes:
        stream, table: the stream and the table.
        oid: the oid of the table; None if no table has this name.
        kind: what has this name if it is not a table, e.g. "a view"; None for a table.
        unlogged: whether the table or a partition of it is unlogged: a crash of the server empties it.
        columns: the table's columns by name.
        raw: the stored position, which the compare-and-set compares; None if there is none.
        position: `raw`, parsed.
        position_oid: the oid of the table that the position was stored for.
        renamed_to: the current name of the table with `position_oid` if it is not this table; None if it was dropped.
    """

    stream: str
    table: Name
    oid: int | None
    kind: str | None = None
    unlogged: bool = False
    columns: Mapping[str, Column] = field(default_factory=dict)
    raw: str | None = None
    position: Position | None = None
    position_oid: int | None = None
    renamed_to: Name | None = None


def check_table(state: TableState) -> BlockReason | None:
    """Why no batch may land: landed rows are not in this table, or a crash may empty it."""
    stream, name = state.stream, state.table
    if state.oid is None or (state.position is not None and state.position_oid != state.oid):
        return _not_the_table(state)
    if state.unlogged:
        return BlockReason(
            "unlogged",
            f"Table {name.text} is unlogged, or has an unlogged partition",
            f"a crash of the server empties it, but the position of stream {stream} would count its rows as landed",
            f"in psql: ALTER TABLE {name.quoted} SET LOGGED;   (each unlogged partition, too), "
            f"then: lakeward streams start {stream}",
            code="LW-3131",
        )
    return None


def _not_the_table(state: TableState) -> BlockReason:
    """The reason for a table that is not the one of the position: it was renamed, dropped or created again."""
    stream, name, at = state.stream, state.table, state.position
    landed = f"{at.totals.landed} rows up to seq {at.seq} ({ranges.show(at.end)})" if at else "nothing"
    new_table = f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy"
    if state.renamed_to is not None:
        other = state.renamed_to
        steps = [f"RENAME TO {quote(name.table)}"] if other.table != name.table else []
        steps += [f"SET SCHEMA {quote(name.schema)}"] if other.schema != name.schema else []
        return BlockReason(
            "table-renamed",
            f"Table {name.text} of stream {stream} was renamed",
            f"it is now {other.text} (oid {state.position_oid}), with the landed rows: {landed}",
            f"in psql: ALTER TABLE {other.quoted} {steps[0]};   restores the name; or {new_table}",
            code="LW-3132",
        )
    if state.oid is None:
        return BlockReason(
            "table-missing",
            f"Table {name.text} of stream {stream} does not exist",
            f"it was dropped with its landed rows: {landed}",
            f"restore it from a backup; or {new_table}",
            code="LW-3133",
        )
    accept = (
        f"UPDATE {name.positions.quoted} SET table_oid = {state.oid} "  # noqa: S608  # a person runs it; names are quoted
        f"WHERE stream = '{stream}' AND table_name = '{name.table}'"
    )
    return BlockReason(
        "table-replaced",
        f"Table {name.text} of stream {stream} was dropped and created again",
        f"its oid is {state.oid}; the position was stored for oid {state.position_oid}, which was dropped: {landed}",
        f"{new_table}; or if the table was restored from a dump that includes {name.positions.text}, "
        f"in psql: {accept};   accepts it",
        code="LW-3130",
    )
