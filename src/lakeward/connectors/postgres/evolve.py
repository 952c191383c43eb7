"""Give a table of PostgreSQL new columns, and move the stream's position to its generation in the same transaction.

Both statements travel as one message, which PostgreSQL carries out as one transaction: a driver that is stopped in
between holds no lock. The table is locked before the position's row, as a batch that lands does, so that the two wait
for each other and never each for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.postgres import connection as links
from lakeward.connectors.postgres.check import TableState
from lakeward.connectors.postgres.name import quote
from lakeward.platform.errors import SpecError
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from psycopg2.extensions import connection

_NONE_MOVED, _IS_THERE, _NO_RIGHT = "22012", "42701", "42501"  # division by zero, duplicate column, no privilege


def evolve(link: connection, state: TableState, added: Mapping[str, str], moved: Position | None) -> None:
    """Add the columns and move the position, both or neither.

    Args:
        state: as it was read and compared.
        added: column -> type.
        moved: the position afterwards; None where the stream has none in this table yet.

    Raises:
        RetryCommit: the position moved, or somebody else added a column.
        SpecError: the role may not change the table.
        psycopg2.Error: it is away, or refuses it.
    """
    import psycopg2

    alter = f"ALTER TABLE {state.table.quoted} " + ", ".join(
        f"ADD COLUMN {quote(name)} {kind}" for name, kind in added.items()
    )
    statements, values = alter, list[object]()
    if moved is not None:
        values = [moved.to_json(), state.stream, state.table.table, state.raw]
        statements += (
            f"; WITH moved AS (UPDATE {state.table.positions.quoted} SET position = %s "  # noqa: S608  # all quoted
            "WHERE stream = %s AND table_name = %s AND position = %s RETURNING 1) SELECT 1 / count(*) FROM moved"
        )
    failpoints.hit("before-evolve")
    try:
        with link.cursor() as cursor:
            cursor.execute(statements, tuple(values))
    except psycopg2.Error as error:
        if error.pgcode == _NONE_MOVED:
            raise RetryCommit("the position moved") from None
        if error.pgcode == _IS_THERE:
            raise RetryCommit(links.words(error)) from None
        if error.pgcode == _NO_RIGHT:
            raise SpecError(
                f"Stream {state.stream} may not give table {state.table.text} new columns", why=links.words(error),
                next=f"as its owner: {alter}; then: lakeward streams start {state.stream}",
             code="LW-3143") from None  # fmt: skip
        raise
    failpoints.hit("after-evolve")
