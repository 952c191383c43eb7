"""Reference tables in the lake (Iceberg, Delta), each read at one snapshot.

A version contains the table's id, its schema and its snapshot. It changes when a table is dropped and created again
under the same name, and when a column is renamed without new rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.delta import jvm as delta
from lakeward.connectors.delta import location
from lakeward.connectors.iceberg import jvm as iceberg
from lakeward.connectors.iceberg.qualified import catalog_of, in_lake, namespace_in_lake
from lakeward.connectors.reference.missing_table import missing_table
from lakeward.platform.errors import Blocked
from lakeward.platform.runtime import Lake
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EMPTY = "-"


@dataclass(frozen=True)
class IcebergReference:
    """A table of the lake's catalog."""

    name: str
    table: str

    def version(self, session: SparkSession) -> str:
        table = self._load(session)
        snapshot = table.currentSnapshot()
        at = _EMPTY if snapshot is None else str(snapshot.snapshotId())
        return f"{table.uuid()}/{table.schema().schemaId()}/{at}"

    def read(self, session: SparkSession, version: str) -> DataFrame:
        at = version.rpartition("/")[2]
        name = in_lake(session, self.table)
        now = session.table(name).schema
        if at == _EMPTY:
            return session.createDataFrame([], now)
        rows = session.read.option("versionAsOf", at).table(name)
        if rows.schema == now:
            return rows
        return rows.select(*self._columns(session, int(at), rows, now))

    def _columns(self, session: SparkSession, at: int, rows: DataFrame, now: Any) -> list[Column]:
        """The current columns, selected from a snapshot that was written before a schema change.

        Spark reads a snapshot with the schema of its time. Columns are matched by Iceberg's column id, not by name.
        """
        from pyspark.sql import functions as F

        jvm: Any = session._jvm
        table = self._load(session)
        then = jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table, at)
        columns = []
        for field in now.fields:
            was = then.findField(table.schema().findField(field.name).fieldId())
            if was is None:
                columns.append(F.lit(None).cast(field.dataType).alias(field.name))
                continue
            column = F.col(quote(was.name()))
            if rows.schema[was.name()].dataType.typeName() not in ("struct", "array", "map"):
                column = column.cast(field.dataType)  # a type is only ever widened
            columns.append(column.alias(field.name))
        return columns

    def _load(self, session: SparkSession) -> Any:
        try:
            # Load the catalog by name first: if it cannot be loaded, Spark takes `lake` for a namespace and reports a
            # missing namespace instead of the cause.
            session._jsparkSession.sessionState().catalogManager().catalog(catalog_of(session, self.table))
            return iceberg.load(session, self.table)
        except Blocked:
            raise missing_table(self.name, self.table, self._tables(session)) from None
        except Exception as error:
            if iceberg.trouble(error) in (iceberg.Trouble.UNREACHABLE, iceberg.Trouble.UNKNOWN):
                raise iceberg.catalog_down(self.table, error) from None
            raise

    def _tables(self, session: SparkSession) -> list[str]:
        from pyspark.errors import AnalysisException

        try:
            rows = session.sql(f"SHOW TABLES IN {namespace_in_lake(session, self.table)}").collect()
        except AnalysisException:
            return []
        return [dotted((*name_parts(self.table)[:-1], row["tableName"])) for row in rows]


@dataclass(frozen=True)
class DeltaReference:
    """A Delta table of the warehouse."""

    name: str
    table: str
    lake: Lake

    def version(self, session: SparkSession) -> str:
        folder = location.folder_of(self.lake, self.table)
        if not location.exists(folder):
            raise missing_table(self.name, self.table, location.tables_of(self.lake))
        snapshot = delta.begin(session, folder, self.table).snapshot()
        return f"{snapshot.metadata().id()}/{snapshot.version()}"

    def read(self, session: SparkSession, version: str) -> DataFrame:
        at = version.rpartition("/")[2]
        folder = location.folder_of(self.lake, self.table)
        return session.read.format("delta").option("versionAsOf", at).load(str(folder))
