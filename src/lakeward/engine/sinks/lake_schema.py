"""`LakeSchema`: fits a transform's columns to an Iceberg or Delta table, and evolves the table if it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.connectors import schema_evolution
from lakeward.connectors.columns import relaxed, up_casts
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.schema_evolution import Column, Comparison, Kind
from lakeward.engine import schema
from lakeward.engine.sinks.evolution import ColumnFit, MovedPosition, SchemaChange, empty_note, evolve
from lakeward.platform.errors import Refused


@dataclass(frozen=True)
class TableColumns:
    """A table's columns and position, from one read.

    Attributes:
        schema: the columns, as Spark's JSON of a schema.
        state: as the writer reads it.
        others: further streams that land in the table.
    """

    schema: dict[str, Any]
    state: Any
    others: Sequence[str]

    @property
    def raw(self) -> str | None:
        """The position as text."""
        raw: str | None = self.state.raw
        return raw

    @property
    def position(self) -> Position | None:
        """The position."""
        position: Position | None = self.state.position
        return position


@dataclass(frozen=True)
class LakeSchema:
    """The columns of one stream's table.

    Args:
        writer: the stream's writer.
        catalog: the catalog the table has in SQL.
        additive: whether the table may be changed.
        read: reads the table.
        alter: adds and widens the columns of a comparison and moves the position; raises `RetryCommit` if the table
            changed since it was read.
        supported: reduces a comparison to what the format can do.
    """

    writer: TableWriter[Any, Any]
    catalog: str
    additive: bool
    read: Callable[[], TableColumns]
    alter: Callable[[TableColumns, Comparison, MovedPosition], None]
    supported: Callable[[Comparison], Comparison] = lambda compared: compared

    def evolve(self, columns: Any, observed: str | None) -> ColumnFit:
        """Compare the transform's columns with the table's, and add to the table what it lacks.

        Args:
            columns: of the transform, as a Spark schema.
            observed: the position that the checkpoint was compared with.

        Raises:
            SpecError: they differ in what the table cannot take.
            Fenced: another writer moved the position since it was observed.
            Transient: other writers changed the table during every attempt.
        """
        given = columns.jsonValue()

        def compare(table: TableColumns) -> SchemaChange:
            compared, empty = self._compared(table, given)
            at = table.position
            return SchemaChange(
                added=[column.name for column in compared.added],
                texts=schema_evolution.grows(compared),
                apply=lambda moved: self.alter(table, compared, moved),
                notes=tuple(empty_note(column.name, at) for column in empty if at),
            )

        table, fits = evolve(self.writer, observed, self.read, compare)
        return ColumnFit(_into(given, table), fits.notes)

    def adopt(self, columns: Any) -> ColumnFit:
        """Use the table's columns for rows that land beside the running stream, without changing the table.

        Raises:
            SpecError: they differ in what the table cannot take.
            Refused: the table lacks columns that the first start of this generation adds.
        """
        table, given = self.read(), columns.jsonValue()
        compared, _ = self._compared(table, given)
        if compared.grows:
            raise Refused(
                f"Generation {self.writer.generation} of stream {self.writer.stream} has not run yet",
                why=f"{self.writer.table} does not have its columns; its first start adds them",
                next=f"lakeward streams start {self.writer.stream}   then try again",
                code="LW-2222",
            )
        return ColumnFit(_into(given, table))

    def _compared(self, table: TableColumns, given: Kind) -> tuple[Comparison, list[Column]]:
        """What the table lacks, and the columns that the transform leaves empty.

        Raises:
            SpecError: they differ in what the table cannot take.
        """
        at, writer = table.position, self.writer
        compared = self.supported(schema_evolution.compare(given, table.schema, self._casts))
        return compared, schema.check(
            writer.stream, writer.generation, writer.table, self.catalog, compared,
            added=at.added if at else {}, additive=self.additive, others=table.others,
        )  # fmt: skip

    def _casts(self, given: Kind, has: Kind) -> bool:
        """Whether Spark stores one type in the other without a possible loss."""
        return up_casts(self.writer.session, given, has)


def _into(given: Kind, table: TableColumns) -> Any:
    """The table's columns for rows that do not have exactly these; None for rows that do."""
    return None if schema_evolution.same(given, table.schema) else relaxed(table.schema)
