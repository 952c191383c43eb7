"""The streams that land in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.engine.assignment import Assignment
from lakeward.platform.errors import SpecError
from lakeward.platform.text import word
from lakeward.registry import generations, streams

if TYPE_CHECKING:
    from sqlalchemy import Connection


def landing(connection: Connection, table: str, only: str | None = None) -> tuple[list[Assignment], dict[str, int]]:
    """The streams that land in a table, in their running generation, and stream -> pending generation.

    Raises:
        SpecError: no stream, or not the named one, lands in the table.
    """
    rows = streams.all_streams(connection)
    specs = generations.of_streams(connection, {row.id: row.generation for row in rows})
    every = [
        Assignment(row.id, row.generation, specs[row.id].spec, specs[row.id].checkpoint)
        for row in rows
        if row.id in specs
    ]
    landing_here = [
        assignment for assignment in every if assignment.spec.sink.label == table and only in (None, assignment.stream)
    ]
    if not landing_here:
        quarantining = [
            assignment
            for assignment in every
            if assignment.spec.quarantine and assignment.spec.quarantine.table == table
        ]
        next_ = (
            f'lakeward quality replay {word(quarantining[0].spec.sink.label)} --comment "corrected"'
            if quarantining
            else "lakeward streams list"
        )
        landing = sorted({assignment.spec.sink.label for assignment in every if assignment.spec.quarantine})
        raise SpecError(
            f"No stream{f' {only}' if only else ''} lands in {table}",
            why=f"{table} is a quarantine table: name the table that its rows should have landed in"
            if quarantining
            else f"tables with a quarantine: {', '.join(landing) or 'none'}",
            next=next_,
            code="LW-2037",
        )
    return landing_here, {row.id: row.pending_generation for row in rows if row.pending_generation is not None}
