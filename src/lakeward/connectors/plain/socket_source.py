"""Socket source, for inspection: lines of a TCP socket. They are in the driver's memory only and cannot be replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors import table_rows
from lakeward.connectors.plain.not_replayable import NotReplayableSource
from lakeward.platform.errors import expect
from lakeward.spec.model.sources import SocketSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class SocketStreamSource(NotReplayableSource):
    """Column `value`: one line. Only Spark connects, when the query starts: the server may accept a single client."""

    @property
    def socket(self) -> SocketSource:
        """The connector's own part of the spec."""
        return expect(self.spec.socket, "a source `socket`")

    @property
    def resumes(self) -> bool:
        return False

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        options = {"host": self.socket.host, "port": str(self.socket.port)}
        return table_rows.packed(session.readStream.format("socket").options(**options).load(), self.name)

    def decode(self, raw: DataFrame) -> DataFrame:
        from pyspark.sql.types import StringType, StructField, StructType

        return table_rows.decoded(raw, self.name, StructType([StructField("value", StringType())]))
