"""Schema evolution of a PostgreSQL table: adds columns and moves the stream's position, in one transaction.

Both statements are sent as one message, which PostgreSQL runs as one transaction: a driver that is stopped in between
holds no lock. The table is locked before the position's row, in the same order as by a batch, so there is no deadlock.
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

_DIVISION_BY_ZERO, _DUPLICATE_COLUMN, _NO_PRIVILEGE = "22012", "42701", "42501"


def evolve(link: connection, state: TableState, added: Mapping[str, str], moved: Position | None) -> None:
    """Add the columns and move the position, both or neither.

    Args:
        state: the state that was read and compared.
        added: column -> type.
        moved: the new position; None if the stream has no position in this table yet.

    Raises:
        RetryCommit: the position moved, or another process added a column.
        SpecError: the role may not alter the table.
        psycopg2.Error: the database does not answer, or refuses the statement.
    """
    import psycopg2

    alter = f"ALTER TABLE {state.table.quoted} " + ", ".join(
        f"ADD COLUMN {quote(name)} {kind}" for name, kind in added.items()
    )
    statements, values = alter, list[object]()
    if moved is not None:
        values = [moved.to_json(), state.stream, state.table.table, state.raw]
        # If no row was updated, 1 / 0 fails and rolls the new columns back.
        statements += (
            f"; WITH moved AS (UPDATE {state.table.positions.quoted} SET position = %s "  # noqa: S608  # all quoted
            "WHERE stream = %s AND table_name = %s AND position = %s RETURNING 1) SELECT 1 / count(*) FROM moved"
        )
    failpoints.hit("before-evolve")
    try:
        with link.cursor() as cursor:
            cursor.execute(statements, tuple(values))
    except psycopg2.Error as error:
        if error.pgcode == _DIVISION_BY_ZERO:
            raise RetryCommit("the position moved") from None
        if error.pgcode == _DUPLICATE_COLUMN:
            raise RetryCommit(links.message(error)) from None
        if error.pgcode == _NO_PRIVILEGE:
            raise SpecError(
                f"Stream {state.stream} may not add columns to table {state.table.text}",
                why=links.message(error),
                next=f"as the owner of the table: {alter}; then: lakeward streams start {state.stream}",
                code="LW-3143",
            ) from None
        raise
    failpoints.hit("after-evolve")
