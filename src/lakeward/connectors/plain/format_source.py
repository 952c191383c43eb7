"""Any Spark streaming source by name. Its offsets are known to Spark's checkpoint only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.connectors import table_rows
from lakeward.connectors.plain import data_source
from lakeward.connectors.plain.not_replayable import NotReplayableSource
from lakeward.platform.errors import expect
from lakeward.spec.model.format_source import FormatSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class FormatStreamSource(NotReplayableSource):
    """Rows of a Spark data source, without an interpretation of its offsets."""

    _schema: Any = field(default=None, init=False)

    @property
    def format(self) -> FormatSource:
        """The connector's own part of the spec."""
        return expect(self.spec.format, "a source `format`")

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        data_source.check(session, self.format.name, f"source {self.name}")
        reader = session.readStream.format(self.format.name).options(**self.format.options)
        rows = (reader.schema(self.format.columns) if self.format.columns else reader).load()
        self._schema = rows.schema
        return table_rows.packed(rows, self.name)

    def decode(self, raw: DataFrame) -> DataFrame:
        return table_rows.decoded(raw, self.name, self._schema)
