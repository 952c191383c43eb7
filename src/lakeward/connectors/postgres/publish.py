"""Rows and position in one statement, so that nothing of it waits for this process once it runs.

A statement that commits by itself holds the position's row for as long as the server needs. Two statements would hold
it until the second comes: from a driver that was stopped in between, never, and its successor would wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.postgres.check import TableState
from lakeward.connectors.postgres.name import Name, listed, quote
from lakeward.connectors.postgres.table import query

if TYPE_CHECKING:
    from psycopg2.extensions import connection


def publish(link: connection, state: TableState, moved: Position, rows: str | None) -> bool:
    """Move the position and insert the rows, both or neither. False: the position is not what was read.

    Args:
        state: as it was read and checked; the compare-and-set compares its `raw` and its table's oid.
        rows: what `insert` made; None: there are none.
    """
    positions = state.table.positions.quoted
    values: list[object] = [moved.to_json(), state.oid, state.stream, state.table.table]
    if state.raw is None:
        set_it = (
            f"INSERT INTO {positions} (position, table_oid, stream, table_name) VALUES (%s, %s, %s, %s) "  # noqa: S608  # all quoted
            "ON CONFLICT DO NOTHING RETURNING 1"
        )
    else:
        set_it = (
            f"UPDATE {positions} SET position = %s, table_oid = %s, landed_at = now() "  # noqa: S608  # all quoted
            "WHERE stream = %s AND table_name = %s AND position = %s RETURNING 1"
        )
        values.append(state.raw)
    landed = "" if rows is None else f", landed AS ({rows})"
    found = query(link, f"WITH moved AS ({set_it}){landed} SELECT count(*) FROM moved", values)  # noqa: S608  # all quoted
    return bool(found[0][0])


def insert(
    table: Name, names: Sequence[str], source: str, keys: Sequence[str] = (), order_by: str | None = None
) -> str:
    """The INSERT of a batch, done only where the position moved.

    Args:
        names: the columns.
        source: a SELECT of them, without a condition.
        keys: of an upsert: a row whose key is there takes its place.
        order_by: unless what is there is newer by this column, null being the oldest.
    """
    text = f"INSERT INTO {table.quoted} AS there ({listed(names)}) {source} WHERE EXISTS (SELECT FROM moved)"
    if not keys:
        return text
    rest = [name for name in names if name not in keys]
    what = f"UPDATE SET {', '.join(f'{quote(name)} = EXCLUDED.{quote(name)}' for name in rest)}" if rest else "NOTHING"
    if rest and order_by:
        column = quote(order_by)
        what += f" WHERE there.{column} IS NULL OR EXCLUDED.{column} >= there.{column}"
    return f"{text} ON CONFLICT ({listed(keys)}) DO {what}"
