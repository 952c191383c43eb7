"""`DeltaStreamSource`: a Delta table as a source of a stream."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.connectors import table_rows
from lakeward.connectors.delta import location, log
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.source import backlog, history
from lakeward.connectors.plain.not_replayable import NotReplayableSource
from lakeward.platform.errors import Blocked, DependencyDown, SpecError, expect
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.table_source import DeltaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class DeltaStreamSource(NotReplayableSource):
    """Reads all rows that the table has when the stream starts, then appended rows."""

    runtime: Runtime
    stream: str
    _schema: Any = field(default=None, init=False)

    @property
    def delta(self) -> DeltaSource:
        """The connector's part of the spec."""
        return expect(self.spec.delta, "a source `delta`")

    @property
    def table(self) -> str:
        """The table, `namespace.table`."""
        return str(self.delta.table)

    @property
    def folder(self) -> Folder:
        """The table's folder."""
        return location.folder_of(self.runtime.lake, self.table)

    @property
    def logged(self) -> bool:
        """True: Delta's source can continue only from the offsets in its checkpoint."""
        return True

    def ids(self) -> dict[str, str]:
        table_id = history.table_id(self.folder) if location.exists(self.folder) else None
        return {} if table_id is None else {f"table {self.table}": table_id}

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        if not location.exists(self.folder):
            raise Blocked(
                f"Table {self.table}, which source {self.name} of stream {stream} reads, no longer exists",
                why=f"{self.folder} has no Delta log: the table was removed or moved",
                next="restore the folder, or give the stream a new id and a new table "
                f"(conf/streams/{stream}.yaml), then: lakeward deploy",
                reason="source-missing",
                code="LW-3045",
            )
        offset = history.parse(at)
        if offset is not None:
            skip = self.delta.skip_changes
            history.check(stream, self.name, self.table, self.folder, offset, skip=skip)

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        if not location.exists(self.folder):
            raise DependencyDown(
                f"Source {self.name} of stream {self.stream} cannot be read: table {self.table} does not exist yet",
                why=f"{self.folder} has no Delta log",
                next="start the stream that lands in it first (this stream retries by itself), or correct delta: "
                f"table: under source {self.name} in conf/streams/{self.stream}.yaml, then: lakeward deploy",
                code="LW-3046",
            )
        version = self.delta.starting_version
        if fresh and begin is None and version is not None:
            history.check_version(self.stream, self.name, self.table, self.folder, version)
        rows = session.readStream.format("delta").options(**self._options()).load(str(self.folder))
        self._schema = rows.schema
        return table_rows.packed(rows, self.name)

    def newest(self, session: SparkSession, most: int) -> DataFrame:
        from pyspark.sql.types import StructType

        table = log.read(self.folder)
        if table is None:
            raise SpecError(
                f"Source {self.name} cannot be previewed",
                why=f"table {self.table} does not exist yet",
                next="start the stream that lands in it first, or correct delta: table:",
                code="LW-3047",
            )
        self._schema = StructType.fromJson(json.loads(table.metadata["schemaString"]))
        files = [str(log.absolute(self.folder, path)) for path in backlog.newest(self.folder, most)]
        if not files:
            return table_rows.packed(session.createDataFrame([], self._schema), self.name)
        # The data files are read directly: a preview session has no catalogs and cannot read the Delta log.
        rows = session.read.schema(self._schema).option("basePath", str(self.folder)).parquet(*files)
        return table_rows.packed(rows.limit(most), self.name)

    def decode(self, raw: DataFrame) -> DataFrame:
        return table_rows.decoded(raw, self.name, self._schema)

    def _options(self) -> dict[str, str]:
        source = self.delta
        options = {
            "skipChangeCommits": str(source.skip_changes).lower(),
            "failOnDataLoss": "true",  # a lost range must stop the stream, never be skipped
            # Delta's default is 1000 files.
            "maxFilesPerTrigger": str(source.max_files_per_trigger or 2**31 - 1),
        }
        if source.max_bytes_per_trigger is not None:
            options["maxBytesPerTrigger"] = str(source.max_bytes_per_trigger.bytes)
        if source.starting_version is not None:
            options["startingVersion"] = str(source.starting_version)
        return options
