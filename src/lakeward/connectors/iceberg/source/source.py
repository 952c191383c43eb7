"""An Iceberg table as a source of a stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors import table_rows
from lakeward.connectors.iceberg.source import continuity, history, position
from lakeward.connectors.iceberg.source import reread as again
from lakeward.connectors.iceberg.source.history import History
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.connectors.source import Reader, StreamSource
from lakeward.platform.errors import DependencyDown, SpecError, expect
from lakeward.platform.runtime import CATALOG, Runtime
from lakeward.spec.model.table_source import IcebergSource
from lakeward.spec.sql.statements import quote_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEGIN = "offsets/0"
"""The file, in a source's folder of a checkpoint, that says where Iceberg's source began."""


@dataclass
class IcebergStreamSource(StreamSource):
    """The appends of one table.

    Args:
        runtime: where the catalog is.
        stream: for the texts.
    """

    runtime: Runtime
    stream: str
    _session: SparkSession | None = field(default=None, init=False)
    _schema: Any = field(default=None, init=False)
    _first: Offset | None = field(default=None, init=False)
    _at: Offset | None = field(default=None, init=False)

    @property
    def iceberg(self) -> IcebergSource:
        """The connector's own part of the spec."""
        return expect(self.spec.iceberg, "a source `iceberg`")

    @property
    def table(self) -> str:
        """Its name."""
        return str(self.iceberg.table)

    @property
    def identity(self) -> tuple[str, ...]:
        """A row of a table has no number: in quarantine it is known by its content."""
        return table_rows.IDENTITY

    def ids(self) -> dict[str, str]:
        found = self._history()
        return {} if found is None else {f"table {self.table}": found.uuid}

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        found = self._history()
        if found is None:
            raise continuity.missing(stream, self.name, self.table)
        self._at = position.parse(at)
        continuity.check(stream, self.name, self._at, found, self.iceberg.skip)

    @property
    def logged(self) -> bool:
        return True

    def opened(self, files: Reader, folder: str, beside: str | None) -> None:
        """Say where Iceberg's source begins, before it makes that up itself.

        A run that lands what is there and ends looks for the end from this place on, over every commit in between, and
        fails when one is expired; so it is moved up to the position as soon as no batch begins here any more.
        """
        session = expect(self._session, "the session: a source is read before its place in the checkpoint is known")
        name = f"{folder}/{_BEGIN}"
        if self._first is not None:
            table_rows.write(session, name, self._first.text)
        elif self._at is not None and files.names(f"{folder.rpartition('/sources/')[0]}/commits"):
            table_rows.write(session, name, self._at.before)

    def restored(self, at: str, folder: str) -> str:
        begin = Path(folder) / _BEGIN
        begin.parent.mkdir(parents=True)
        begin.write_text(position.parse(at).before)
        return at

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        found = self._history()
        if found is None:
            raise DependencyDown(
                f"There is no table {self.table} for source {self.name} of stream {self.stream} yet",
                why="whoever lands in it has not made it",
                next="start that stream first (this one tries again by itself), or correct iceberg: table: and deploy",
                code="LW-3101",
            )
        self._session = session
        self._first = None
        if fresh and begin is None:
            self._first = continuity.first(self.stream, self.name, self.iceberg, found)
            continuity.check(self.stream, self.name, self._first, found, self.iceberg.skip)
        rows = session.readStream.options(**self._options()).table(quote_table(self.table, CATALOG))
        self._schema = rows.schema
        return table_rows.packed(rows, self.name)

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        key = f"lakeward-{self.stream}-{self.name}"
        rows = again.read_range(session, self.table, key, position.parse(start), position.parse(end))
        if rows is None:
            rows = session.createDataFrame([], self._schema)
        return table_rows.packed(rows.select(*table_rows.columns(self._schema)), self.name)

    def newest(self, session: SparkSession, most: int) -> DataFrame:
        found = self._history()
        if found is None:
            raise SpecError(
                f"Source {self.name} cannot be previewed", why=f"there is no table {self.table} yet", code="LW-3102"
            )
        self._schema = session.table(quote_table(self.table, CATALOG)).schema
        first, rows = Offset(None), 0
        for each in found.main:
            first, rows = Offset(each.snapshot), rows + (each.rows if each.operation == "append" else 0)
            if rows >= most:
                break
        end = Offset(found.main[0].snapshot, found.main[0].files) if found.main else Offset(None)
        taken = again.read_range(session, self.table, f"lakeward-preview-{self.name}", first, end)
        taken = session.createDataFrame([], self._schema) if taken is None else taken.limit(most)
        return table_rows.packed(taken.select(*table_rows.columns(self._schema)), self.name)

    def decode(self, raw: DataFrame) -> DataFrame:
        return table_rows.decoded(raw, self.name, self._schema)

    def _options(self) -> dict[str, str]:
        source = self.iceberg
        found = {
            "streaming-skip-overwrite-snapshots": str("overwrites" in source.skip).lower(),
            "streaming-skip-delete-snapshots": str("deletes" in source.skip).lower(),
            "async-micro-batch-planning-enabled": "false",
        }
        if source.max_files_per_trigger is not None:
            found["streaming-max-files-per-micro-batch"] = str(source.max_files_per_trigger)
        if source.max_rows_per_trigger is not None:
            found["streaming-max-rows-per-micro-batch"] = str(source.max_rows_per_trigger)
        return found

    def _history(self) -> History | None:
        return history.read(self.runtime, self.table)
