"""Publishes a batch: one statement inserts the rows and moves the position.

One autocommitted statement locks the position's row only while the server works. With two statements the row would stay
locked until the second arrives: if the driver is stopped in between, its successor would wait forever.
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
    """Move the position and insert the rows, both or neither; returns False if the position has changed.

    Args:
        state: the state that was read and checked; the compare-and-set compares its `raw`.
        rows: the INSERT from `insert`; None if the batch has no rows.
    """
    positions = state.table.positions.quoted
    values: list[object] = [moved.to_json(), state.oid, state.stream, state.table.table]
    if state.raw is None:
        move = (
            f"INSERT INTO {positions} (position, table_oid, stream, table_name) VALUES (%s, %s, %s, %s) "  # noqa: S608  # all quoted
            "ON CONFLICT DO NOTHING RETURNING 1"
        )
    else:
        move = (
            f"UPDATE {positions} SET position = %s, table_oid = %s, landed_at = now() "  # noqa: S608  # all quoted
            "WHERE stream = %s AND table_name = %s AND position = %s RETURNING 1"
        )
        values.append(state.raw)
    landed = "" if rows is None else f", landed AS ({rows})"
    [(count,)] = query(link, f"WITH moved AS ({move}){landed} SELECT count(*) FROM moved", values)  # noqa: S608  # all quoted
    return bool(count)


def insert(
    table: Name, names: Sequence[str], source: str, keys: Sequence[str] = (), order_by: str | None = None
) -> str:
    """The INSERT of a batch, which inserts rows only if the position moved.

    Args:
        names: the columns.
        source: a SELECT of the columns, without a condition.
        keys: the keys of an upsert: a row replaces the table's row with the same key.
        order_by: a table row that is newer by this column is not replaced; null is the oldest.
    """
    text = f"INSERT INTO {table.quoted} AS there ({listed(names)}) {source} WHERE EXISTS (SELECT FROM moved)"
    if not keys:
        return text
    others = [name for name in names if name not in keys]
    updates = ", ".join(f"{quote(name)} = EXCLUDED.{quote(name)}" for name in others)
    action = f"UPDATE SET {updates}" if others else "NOTHING"
    if others and order_by:
        column = quote(order_by)
        action += f" WHERE there.{column} IS NULL OR EXCLUDED.{column} >= there.{column}"
    return f"{text} ON CONFLICT ({listed(keys)}) DO {action}"
