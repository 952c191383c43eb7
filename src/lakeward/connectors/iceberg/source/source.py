"""`IcebergStreamSource`: the appends of an Iceberg table as the source of a stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors import table_rows
from lakeward.connectors.iceberg import missing_table
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.source import continuity, history, position, reread
from lakeward.connectors.iceberg.source.history import History
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.connectors.source import Reader, StreamSource
from lakeward.platform.errors import DependencyDown, SpecError, expect
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.table_source import IcebergSource
from lakeward.spec.sql.catalogs import prefix_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEGIN = "offsets/0"
"""The file in a source's checkpoint folder that records where Iceberg's source began."""


@dataclass
class IcebergStreamSource(StreamSource):
    """The appends of one table.

    Args:
        runtime: gives the catalog.
        stream: the stream's id, for messages.
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
        """The table's name."""
        return str(self.iceberg.table)

    @property
    def identity(self) -> tuple[str, ...]:
        """A row of a table has no number: in quarantine its content identifies it."""
        return table_rows.IDENTITY

    def ids(self) -> dict[str, str]:
        table_history = self._history()
        return {} if table_history is None else {f"table {self.table}": table_history.uuid}

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        table_history = self._history()
        if table_history is None:
            newest = missing_table.newest_in(self.runtime.lake, self.table)
            raise continuity.missing(stream, self.name, self.table, newest, prefix_in(self.runtime.lake, self.table))
        self._at = position.parse(at)
        continuity.check(stream, self.name, self._at, table_history, self.iceberg.skip)

    @property
    def logged(self) -> bool:
        return True

    def opened(self, files: Reader, folder: str, beside: str | None) -> None:
        """Write where Iceberg's source begins, before the source chooses that itself.

        An `available_now` run searches for its end from this offset, over every commit in between, and fails when one
        is expired; so the offset moves up to the position as soon as no batch begins here any more.
        """
        session = expect(self._session, "the session: a source is read before its checkpoint folder is known")
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
        table_history = self._history()
        if table_history is None:
            raise DependencyDown(
                f"Source {self.name} of stream {self.stream} cannot be read: table {self.table} does not exist yet",
                why="the stream or job that writes the table has not created it",
                next="start that stream first (this one retries by itself), or correct iceberg: table: and deploy",
                code="LW-3101",
            )
        self._session = session
        self._first = None
        if fresh and begin is None:
            self._first = continuity.first(self.stream, self.name, self.iceberg, table_history)
            continuity.check(self.stream, self.name, self._first, table_history, self.iceberg.skip)
        rows = session.readStream.options(**self._options()).table(in_lake(session, self.table))
        self._schema = rows.schema
        return table_rows.packed(rows, self.name)

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        key = f"lakeward-{self.stream}-{self.name}"
        rows = reread.read_range(session, self.table, key, position.parse(start), position.parse(end))
        if rows is None:
            rows = session.createDataFrame([], self._schema)
        return table_rows.packed(rows.select(*table_rows.columns(self._schema)), self.name)

    def newest(self, session: SparkSession, most: int) -> DataFrame:
        table_history = self._history()
        if table_history is None:
            raise SpecError(
                f"Source {self.name} cannot be previewed",
                why=f"table {self.table} does not exist yet",
                next="start the stream that writes the table",
                code="LW-3102",
            )
        self._schema = session.table(in_lake(session, self.table)).schema
        first, rows = Offset(None), 0
        commits = table_history.main
        for commit in commits:
            first, rows = Offset(commit.snapshot), rows + (commit.rows if commit.operation == "append" else 0)
            if rows >= most:
                break
        end = Offset(commits[0].snapshot, commits[0].files) if commits else Offset(None)
        taken = reread.read_range(session, self.table, f"lakeward-preview-{self.name}", first, end)
        taken = session.createDataFrame([], self._schema) if taken is None else taken.limit(most)
        return table_rows.packed(taken.select(*table_rows.columns(self._schema)), self.name)

    def decode(self, raw: DataFrame) -> DataFrame:
        return table_rows.decoded(raw, self.name, self._schema)

    def _options(self) -> dict[str, str]:
        source = self.iceberg
        options = {
            "streaming-skip-overwrite-snapshots": str("overwrites" in source.skip).lower(),
            "streaming-skip-delete-snapshots": str("deletes" in source.skip).lower(),
            "async-micro-batch-planning-enabled": "false",
        }
        if source.max_files_per_trigger is not None:
            options["streaming-max-files-per-micro-batch"] = str(source.max_files_per_trigger)
        if source.max_rows_per_trigger is not None:
            options["streaming-max-rows-per-micro-batch"] = str(source.max_rows_per_trigger)
        return options

    def _history(self) -> History | None:
        return history.read(self.runtime, self.table)
