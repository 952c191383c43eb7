"""References in tables of the lake, each read at one snapshot.

A version names the table's own id, its columns and its snapshot: a table that was dropped and made again under the same
name is another one, and so is one with a renamed column and the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.delta import jvm as delta
from lakeward.connectors.delta import location
from lakeward.connectors.iceberg import jvm as iceberg
from lakeward.connectors.reference.missing_table import missing_table
from lakeward.platform.errors import Blocked
from lakeward.platform.runtime import CATALOG, Lake
from lakeward.spec.sql.statements import quote, quote_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EMPTY = "-"


@dataclass(frozen=True)
class IcebergReference:
    """A table of the catalog `lake`."""

    name: str
    table: str

    def version(self, session: SparkSession) -> str:
        found = self._load(session)
        snapshot = found.currentSnapshot()
        at = _EMPTY if snapshot is None else str(snapshot.snapshotId())
        return f"{found.uuid()}/{found.schema().schemaId()}/{at}"

    def read(self, session: SparkSession, version: str) -> DataFrame:
        at = version.rpartition("/")[2]
        name = quote_table(self.table, CATALOG)
        now = session.table(name).schema
        if at == _EMPTY:
            return session.createDataFrame([], now)
        rows = session.read.option("versionAsOf", at).table(name)
        if rows.schema == now:
            return rows
        return rows.select(*self._columns(session, int(at), rows, now))

    def _columns(self, session: SparkSession, at: int, rows: DataFrame, now: Any) -> list[Column]:
        """The table's columns as of now, out of a snapshot that was written before they were changed.

        Spark reads a snapshot in the columns of its time. Iceberg knows a column by its id, whatever its name.
        """
        from pyspark.sql import functions as F

        jvm: Any = session._jvm
        table = self._load(session)
        then = jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table, at)
        found = []
        for field in now.fields:
            was = then.findField(table.schema().findField(field.name).fieldId())
            if was is None:
                found.append(F.lit(None).cast(field.dataType).alias(field.name))
                continue
            column = F.col(quote(was.name()))
            if rows.schema[was.name()].dataType.typeName() not in ("struct", "array", "map"):
                column = column.cast(field.dataType)  # types are only ever widened
            found.append(column.alias(field.name))
        return found

    def _load(self, session: SparkSession) -> Any:
        try:
            # By its name first: a catalog that cannot be loaded counts as none for Spark, which then takes `lake` for a
            # namespace and complains of that.
            session._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
            return iceberg.load(session, self.table)
        except Blocked:
            raise missing_table(self.name, self.table, self._beside(session)) from None
        except Exception as error:
            if iceberg.trouble(error) in (iceberg.Trouble.UNREACHABLE, iceberg.Trouble.UNKNOWN):
                raise iceberg.catalog_down(self.table, error) from None
            raise

    def _beside(self, session: SparkSession) -> list[str]:
        from pyspark.errors import AnalysisException

        namespace = self.table.rpartition(".")[0]
        try:
            rows = session.sql(f"SHOW TABLES IN {quote_table(namespace, CATALOG)}").collect()
        except AnalysisException:
            return []
        return [f"{namespace}.{row['tableName']}" for row in rows]


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
