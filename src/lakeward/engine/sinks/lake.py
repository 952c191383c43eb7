"""Into a table of the lake, whose columns may grow with the stream's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from lakeward.connectors import schema_evolution
from lakeward.connectors.columns import relaxed, up_casts
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, pause
from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.position import Position, now
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.schema_evolution import Column, Comparison, Kind
from lakeward.engine import schema
from lakeward.engine.sinks.evolving import GrowingLanding, empty_note
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = structlog.get_logger(__name__)

W = TypeVar("W", bound=TableWriter[Any, Any])


@dataclass(frozen=True)
class Shape:
    """A table's columns as Spark's JSON of a schema, with what else was read of it in one look.

    Attributes:
        state: as the writer reads it.
        others: further streams that land in it.
    """

    schema: dict[str, Any]
    state: Any
    others: Sequence[str]


@dataclass
class LakeLanding(GrowingLanding[W]):
    """An Iceberg or Delta sink."""

    _into: Any = field(default=None, init=False)

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """As every exact sink, in the table's columns by name, at any depth; what the transform lacks is null."""
        return super().land(self.fitting(rows), batch_id, counted, before_publish, complete_through)

    def fitting(self, rows: DataFrame) -> DataFrame:
        """Rows of the transform in the table's columns, after `fits` or `as_it_is`."""
        return rows if self._into is None else rows.to(self._into)

    def as_it_is(self, columns: Any) -> None:
        """Take the table's columns for rows that land beside the running stream: nothing is changed for them.

        Raises:
            SpecError: they differ in what the table cannot take.
            Refused: the table lacks what the start of this generation gives it.
        """
        table = self.shape()
        compared, _ = self._compared(table, columns.jsonValue())
        if compared.grows:
            raise Refused(
                f"Generation {self.writer.generation} of stream {self.writer.stream} has not run yet",
                why=f"{self.writer.table} does not have its columns; its first start adds them",
                next=f"lakeward streams start {self.writer.stream}   then try again",
                code="LW-2222",
            )
        self._into = None if schema_evolution.same(columns.jsonValue(), table.schema) else relaxed(table.schema)

    def _compared(self, table: Shape, given: Any) -> tuple[Comparison, list[Column]]:
        """What the table lacks, and what the transform leaves empty.

        Raises:
            SpecError: they differ in what the table cannot take.
        """
        at = table.state.position
        compared = self.comparable(schema_evolution.compare(given, table.schema, self.casts))
        return compared, schema.check(
            self.writer.stream, self.writer.generation, self.writer.table, self.catalog, compared,
            added=at.added if at else {}, additive=self.additive, others=table.others,
        )  # fmt: skip

    def casts(self, given: Kind, has: Kind) -> bool:
        """Whether Spark stores one type in the other without a possible loss."""
        return up_casts(self.writer.session, given, has)

    def fits(self, columns: Any) -> None:
        """Compare the transform's columns with the table's, and give the table what it lacks if it may have it.

        Args:
            columns: of the transform, as a Spark schema.

        Raises:
            SpecError: they differ in what the table cannot take.
            Fenced: somebody else landed in the table since it was looked at.
            Transient: other writers changed it first, every time.
        """
        stream, name, given = self.writer.stream, self.writer.table, columns.jsonValue()
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            table = self.shape()
            self.unmoved(table.state)
            at = table.state.position
            compared, empty = self._compared(table, given)
            if not compared.grows:
                self._into = None if schema_evolution.same(given, table.schema) else relaxed(table.schema)
                self.notes = tuple(empty_note(each.name, at) for each in empty if at)
                return
            try:
                self._grow(table, compared)
            except RetryCommit as redo:
                _log.info("looking at the table again", stream=stream, table=name, why=str(redo))
                continue
            for change in schema_evolution.grows(compared):
                _log.info("table changed", stream=stream, table=name, change=change, generation=self.writer.generation)
        raise self.writer.contention(-1, "other commits came first while its columns were changed")

    def _grow(self, table: Shape, compared: Comparison) -> None:
        before, made = table.state.position, now()
        added = [each.name for each in compared.added]

        def build(version: int | None) -> Position | None:
            """The position under an id of this generation: whoever wrote the old one is fenced by it."""
            return None if before is None else self.moved(before, added, made, version)

        self.evolve(table, compared, build)

    @property
    def catalog(self) -> str:
        """The catalog the table has in SQL."""
        return CATALOG

    def comparable(self, compared: Comparison) -> Comparison:
        """A comparison by what this format can do."""
        return compared

    @abstractmethod
    def shape(self) -> Shape:
        """The table's columns and state, read afresh."""

    @abstractmethod
    def evolve(self, table: Shape, compared: Comparison, build: Callable[[int | None], Position | None]) -> None:
        """Add and widen what a comparison found, and move the position.

        Args:
            table: as it was compared.
            build: the version a commit will be, where the position names it -> the position; None without one.

        Raises:
            RetryCommit: the table changed meanwhile.
        """
