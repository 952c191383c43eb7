"""Spark part of a rebuild: fill the new table like a backfill, and relabel the quarantined rows afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeward.connectors.iceberg import relabel
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.quarantine import quarantine_stream_name
from lakeward.connectors.kafka import position as kafka_position
from lakeward.engine import session
from lakeward.operations.backfill.backfill import Report, backfill
from lakeward.platform.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.platform.runtime import Runtime


@dataclass
class Fill:
    """Fills the new table of a rebuild.

    Attributes:
        spark: a session with the lake's catalog.
        assignment: the generation of the new rows.
        into: the table that is filled; created if missing.
        name: name of the fill's position in it.
        start: canonical offsets where the fill begins.
        report_progress: takes a report after each batch.
    """

    spark: SparkSession
    assignment: Assignment
    runtime: Runtime
    into: str
    name: str
    start: str
    report_progress: Callable[[Report], None] = lambda report: None
    _new: bool = field(default=False, init=False)

    @property
    def _quarantine_table(self) -> str | None:
        quarantine = self.assignment.spec.quarantine
        return None if quarantine is None else str(quarantine.table)

    def begin(self) -> None:
        """Called before the first batch: quarantined rows of an earlier fill with this name are removed."""
        self._new = True
        if self._quarantine_table is not None:
            fill = quarantine_stream_name(self.name, self.into)
            relabel.forget(session.for_stream(self.spark, self.assignment.spec), self._quarantine_table, fill)

    def fill(self, end: str) -> None:
        """Land the records between its position and `end` (canonical offsets, exclusive); see `backfill`.

        Raises:
            Refused: the table is missing. A new one of that name would use the folder of a swapped table.
        """
        if not self._new and not self.spark.catalog.tableExists(in_lake(self.spark, self.into)):
            raise Refused(
                f"Table {self.into} is missing",
                why="it was dropped, renamed or swapped while it was being filled",
                next=f"lakeward streams rebuild {self.assignment.stream} --dry-run",
                code="LW-2038",
            )
        backfill(
            self.spark,
            self.assignment,
            self.runtime,
            self.start,
            end,
            into=self.into,
            named=self.name,
            report_progress=self.report_progress,
        )
        self._new = False

    def settle(self, before: str, end: str, at: str, *, rows: bool) -> None:
        """Called after the swap: the fill's quarantined rows become the stream's; see `relabel`."""
        if self._quarantine_table is not None:
            own = session.for_stream(self.spark, self.assignment.spec)
            ends = kafka_position.parse(end)
            fill = quarantine_stream_name(self.name, self.into)
            relabel.relabel(own, self._quarantine_table, self.assignment.stream, fill, before, ends, at, rows=rows)
