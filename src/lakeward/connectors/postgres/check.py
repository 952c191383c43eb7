"""May a stream land in this table of PostgreSQL? Pure: which table it is, and what its position says, decide."""

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
    """What the catalog and the table of positions said.

    Attributes:
        stream, table: whose position it is, and where.
        oid: PostgreSQL's own id of the table; None where there is no table of this name.
        kind: what it is, where it is no table; None for a table.
        unlogged: it, or a partition of it, is emptied when the server crashes.
        columns: its columns by name.
        raw: the position as it stands; None if there is none. The compare-and-set compares it.
        position: `raw`, parsed.
        kept: the id of the table that the position was landed in.
        moved: what the table of that id is called now, where it is another than this; None where it is gone.
    """

    stream: str
    table: Name
    oid: int | None
    kind: str | None = None
    unlogged: bool = False
    columns: Mapping[str, Column] = field(default_factory=dict)
    raw: str | None = None
    position: Position | None = None
    kept: int | None = None
    moved: Name | None = None


def check_table(state: TableState) -> BlockReason | None:
    """What blocks whatever the batch: rows that the position calls landed are not in this table, or may vanish."""
    stream, name = state.stream, state.table
    if state.oid is None or (state.position is not None and state.kept != state.oid):
        return _another(state)
    if state.unlogged:
        return BlockReason(
            "unlogged",
            f"Table {name.text} is unlogged, or has a partition that is",
            f"a crash of the server empties it, and the position of stream {stream} would call its rows landed",
            f"ALTER TABLE {name.quoted} SET LOGGED (each unlogged partition, too), "
            f"then: lakeward streams start {stream}",
            code="LW-3131",
        )
    return None


def _another(state: TableState) -> BlockReason:
    """The table of the position is not here: renamed, dropped, or made anew."""
    stream, name, at = state.stream, state.table, state.position
    landed = f"{at.totals.landed} rows up to seq {at.seq} ({ranges.show(at.end)})" if at else "nothing"
    afresh = f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy"
    if state.moved is not None:
        there = f"{state.moved.text} has it (oid {state.kept}): {landed}"
        steps = [f"RENAME TO {quote(name.table)}"] if state.moved.table != name.table else []
        steps += [f"SET SCHEMA {quote(name.schema)}"] if state.moved.schema != name.schema else []
        back = f"ALTER TABLE {state.moved.quoted} {steps[0]};   puts it back"
        return BlockReason(
            "table-renamed", f"The table of stream {stream} is not called {name.text} any more", there,
            f"{back}; or {afresh}",
         code="LW-3132")  # fmt: skip
    if state.oid is None:
        return BlockReason(
            "table-missing", f"Table {name.text} of stream {stream} is gone",
            f"it was dropped, with what was landed in it: {landed}", f"put it back from a backup; or {afresh}",
         code="LW-3133")  # fmt: skip
    accept = (
        f"UPDATE {name.positions.quoted} SET table_oid = {state.oid} "  # noqa: S608  # a person runs it; names are quoted
        f"WHERE stream = '{stream}' AND table_name = '{name.table}'"
    )
    return BlockReason(
        "table-replaced",
        f"Table {name.text} was made anew under stream {stream}",
        f"its oid is {state.oid}, the position was landed in {state.kept}, which is gone: {landed}",
        f"where a dump that was taken together with {name.positions.text} was restored: {accept}; else {afresh}",
        code="LW-3130",
    )
