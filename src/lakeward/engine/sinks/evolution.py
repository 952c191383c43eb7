"""Schema evolution at the start of a generation, for every table format: change the columns, move the position.

The position moves to the new generation, so that a driver of the older one is fenced. See docs/adr/0030.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, new_attempt, pause
from lakeward.connectors.commit_protocol.position import Position, now
from lakeward.connectors.commit_protocol.writer import Read, TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = structlog.get_logger(__name__)

R = TypeVar("R", bound=Read)

MovedPosition = Callable[[int | None], Position | None]
"""(table version that the position names, None if it names none) -> the new position; None if the stream has none."""


@dataclass(frozen=True)
class ColumnFit:
    """How rows of a transform are put into the columns of a table.

    Attributes:
        into: the table's columns as a Spark schema; None if the rows have them already.
        notes: for people: columns that this generation leaves empty.
    """

    into: Any = None
    notes: tuple[str, ...] = ()

    def apply(self, rows: DataFrame) -> DataFrame:
        """The rows in the table's columns, by name at any depth. A column the transform lacks is null."""
        return rows if self.into is None else rows.to(self.into)


@dataclass(frozen=True)
class SchemaChange:
    """What separates a table from the columns of a transform.

    Attributes:
        added: the columns to add.
        texts: every change of the table, for the log; empty if the table fits.
        apply: commits the changes with the position; raises `RetryCommit` if the table changed meanwhile.
        notes: for people.
    """

    added: Sequence[str]
    texts: Sequence[str]
    apply: Callable[[MovedPosition], None]
    notes: tuple[str, ...] = ()


def evolve(
    writer: TableWriter[Any, Any], observed: str | None, read: Callable[[], R], compare: Callable[[R], SchemaChange]
) -> tuple[R, SchemaChange]:
    """Change a table until it fits.

    Args:
        writer: of the stream; it expects the moved position afterwards.
        observed: the position that the checkpoint was compared with.
        read: reads the table.
        compare: compares its columns with the transform's.

    Returns:
        The table that fits, and its comparison.

    Raises:
        SpecError: the columns differ in what the table cannot take.
        Fenced: another writer moved the position since it was observed.
        Transient: other writers changed the table during every attempt.
    """
    stream, name = writer.stream, writer.table
    own: set[str] = set()
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        table = read()
        if table.raw != observed and table.raw not in own:
            raise writer.fenced(table)
        writer.expect(table.raw)
        change = compare(table)
        if not change.texts:
            return table, change
        try:
            change.apply(_mover(writer, table.position, change.added, own))
        except RetryCommit as retry:
            _log.info("schema evolution retried", stream=stream, table=name, why=str(retry))
            continue
        for text in change.texts:
            _log.info("table changed", stream=stream, table=name, change=text, generation=writer.generation)
    raise writer.contention(-1, "other writers moved its position or changed its columns first")


def _mover(
    writer: TableWriter[Any, Any], before: Position | None, added: Sequence[str], own: set[str]
) -> MovedPosition:
    """Builds the position of this generation; each one built is added to `own`."""
    made, generation = now(), writer.generation

    def moved(version: int | None) -> Position | None:
        if before is None:
            return None
        changed: dict[str, Any] = {
            "generation": generation,
            "attempt": new_attempt(writer.stream, before.seq),
            "added": {**before.added, **dict.fromkeys(added, generation)},
            "at": made,
        }
        if version is not None:
            changed |= {"snapshot": version, "snapshot_seq": version}
        position: Position = before.model_copy(update=changed)
        own.add(position.to_json())
        return position

    return moved


def empty_note(column: str, at: Position) -> str:
    """The note on a column that a newer generation added and this one does not know."""
    return f"column {column} was added by generation {at.added[column]}; this one lands no value in it"
